#include "tier/virtual_tier.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include <fmt/format.h>

#include "base/parse.h"

namespace spillway {
namespace {

// No processor of today has memory here: who reads a virtual block crashes.
// 2^62 addresses from there on last for 30 years of 4 GiB blocks, one a second.
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
  // An absurd block of an unlimited tier must not lead the addresses around.
  next_ += std::min(std::max<Bytes>(1, (bytes + kBlockAlign - 1) / kBlockAlign) * kBlockAlign,
                    Bytes{1} << 40);
  allocated_ += bytes;
  return reinterpret_cast<std::byte*>(at);
}

void VirtualTier::Free(std::byte* block, Bytes bytes, bool backed) {
  assert(reinterpret_cast<std::uintptr_t>(block) >= kFirstAddress);
  assert(reinterpret_cast<std::uintptr_t>(block) < next_);
  assert(allocated_ >= bytes);
  if (backed) SetBacked(block, bytes, false);
  allocated_ -= bytes;
  assert(backed_ <= allocated_);
}

void VirtualTier::SetBacked(std::byte*, Bytes bytes, bool backed) {
  assert(backed ? allocated_ - backed_ >= bytes : backed_ >= bytes);
  backed_ = backed ? backed_ + bytes : backed_ - bytes;
}

}  // namespace spillway
