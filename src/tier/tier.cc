// SPDX-License-Identifier: Apache-2.0
#include "tier/tier.h"

namespace spillway {

Status Tier::ReadToHost(const std::byte* block, Bytes bytes, std::byte* to,
                        const std::function<bool(Bytes)>& arrived) const {
  Status read = Read(block, bytes, Sink(to, bytes));
  if (read && !arrived(bytes)) return Error{Code::kCancelled, "the copy was cancelled"};
  return read;
}

Status Tier::WriteFromHost(std::byte* block, const std::byte* from, Bytes bytes,
                           const std::function<bool(Bytes)>& arrived,
                           std::vector<Hash128>* hashes) {
  if (hashes != nullptr) hashes->clear();
  Status written = Write(block, Source(from, bytes));
  if (written && !arrived(bytes)) return Error{Code::kCancelled, "the copy was cancelled"};
  return written;
}

}  // namespace spillway
