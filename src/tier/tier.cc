#include "tier/tier.h"

namespace spillway {

Status Tier::ReadToHost(const std::byte* block, Bytes bytes, std::byte* to,
                        const std::function<bool(Bytes)>& arrived) const {
  Status read = Read(block, bytes, Sink(to, bytes));
  if (read && !arrived(bytes)) return Error{Code::kCancelled, "the copy was called off"};
  return read;
}

}  // namespace spillway
