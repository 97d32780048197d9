// SPDX-License-Identifier: Apache-2.0
// Copies for devices whose memory the host can access: a fragment on the device
// is host memory, too.
#pragma once

#include <cstddef>

#include "spillway/fragment.h"
#include "spillway/units.h"

namespace spillway {

// Copies all of `source`, fragment by fragment, to `to`.
void GatherToHost(std::byte* to, const Source& source);

// Copies `bytes` from `from` into `sink`, which must hold at least that many.
void ScatterFromHost(const std::byte* from, Bytes bytes, const Sink& sink);

}  // namespace spillway
