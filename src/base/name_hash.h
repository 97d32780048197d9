// SPDX-License-Identifier: Apache-2.0
// The hash of names that clients choose, for containers of the standard
// library. It is keyed by a secret of this process: std::hash is public, so an
// attacker could find thousands of names for one bucket. Only for containers
// whose order does not matter.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/key_hasher.h"

namespace spillway {

struct NameHash {
  std::size_t operator()(std::string_view name) const { return SipHash13(ProcessSeed(), name); }
};

}  // namespace spillway
