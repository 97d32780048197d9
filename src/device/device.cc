// SPDX-License-Identifier: Apache-2.0
#include "device/device.h"

namespace spillway {

Status Device::CopyToHost(const std::byte* from, Bytes bytes, std::byte* to,
                          const std::function<bool(Bytes)>& arrived) {
  Status copied = CopyOut(from, bytes, Sink(to, bytes));
  if (copied && !arrived(bytes)) return Error{Code::kCancelled, "the copy was cancelled"};
  return copied;
}

Status Device::CopyFromHost(std::byte* to, const std::byte* from, Bytes bytes,
                            const std::function<bool(Bytes)>& arrived,
                            std::vector<Hash128>* hashes) {
  if (hashes != nullptr) hashes->clear();
  Status copied = CopyIn(to, Source(from, bytes));
  if (copied && !arrived(bytes)) return Error{Code::kCancelled, "the copy was cancelled"};
  return copied;
}

}  // namespace spillway
