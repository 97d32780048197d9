// SPDX-License-Identifier: Apache-2.0
#include "tier/virtual_tier.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include <fmt/format.h>

#include "base/parse.h"

namespace spillway {
namespace {

// No processor of today can map these addresses, so reading a virtual block crashes.
// The 2^62 addresses from here on last 30 years at one 4 GiB block a second.
constexpr std::uintptr_t kFirstAddress = std::uintptr_t{1} << 62;
constexpr Bytes kBlockAlign = 64;

}  // namespace

VirtualTier::VirtualTier(Bytes capacity, std::string name)
    : name_(std::move(name)), capacity_(capacity), next_(kFirstAddress) {}

Result<std::byte*> VirtualTier::Allocate(Bytes bytes) {
  if (bytes > capacity_ - allocated_) {
    return Error{
        Code::kNoMemory,
        fmt::format("tier \"{}\" is full: {} wanted, {} of {} left", name_, FormatBytes(bytes),
                    FormatBytes(capacity_ - allocated_), FormatBytes(capacity_))};
  }
  const std::uintptr_t at = next_;
  // A huge block of an unlimited tier must not make the addresses wrap around.
  next_ += std::min(std::max<Bytes>(1, (bytes + kBlockAlign - 1) / kBlockAlign) * kBlockAlign,
                    Bytes{1} << 40);
  allocated_ += bytes;
  return reinterpret_cast<std::byte*>(at);
}

void VirtualTier::Free(std::byte* block, Bytes bytes, bool clean) {
  assert(reinterpret_cast<std::uintptr_t>(block) >= kFirstAddress);
  assert(reinterpret_cast<std::uintptr_t>(block) < next_);
  assert(allocated_ >= bytes);
  if (clean) SetClean(block, bytes, false);
  allocated_ -= bytes;
  assert(clean_ <= allocated_);
}

void VirtualTier::SetClean(std::byte*, Bytes bytes, bool clean) {
  assert(clean ? allocated_ - clean_ >= bytes : clean_ >= bytes);
  clean_ = clean ? clean_ + bytes : clean_ - bytes;
}

}  // namespace spillway
