// Copies for devices whose memory the host can reach: a fragment on the device
// is host memory, too.
#pragma once

#include <cstddef>

#include "spillway/fragment.h"
#include "spillway/units.h"

namespace spillway {

// All of `source`, one fragment behind the other, to `to`.
void GatherToHost(std::byte* to, const Source& source);

// `bytes` from `from` into `sink`, which must hold at least that many.
void ScatterFromHost(const std::byte* from, Bytes bytes, const Sink& sink);

}  // namespace spillway
