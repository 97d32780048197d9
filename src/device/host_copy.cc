// SPDX-License-Identifier: Apache-2.0
#include "device/host_copy.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace spillway {

void GatherToHost(std::byte* to, const Source& source) {
  for (const Fragment& fragment : source.fragments()) {
    if (fragment.bytes == 0) continue;  // Its pointer may be null.
    std::memcpy(to, fragment.data, fragment.bytes);
    to += fragment.bytes;
  }
}

void ScatterFromHost(const std::byte* from, Bytes bytes, const Sink& sink) {
  for (const MutableFragment& fragment : sink.fragments()) {
    const Bytes part = std::min(bytes, fragment.bytes);
    if (part == 0) continue;
    std::memcpy(fragment.data, from, part);
    from += part;
    bytes -= part;
  }
  assert(bytes == 0 && "the sink is smaller than the value");
}

}  // namespace spillway
