// SPDX-License-Identifier: Apache-2.0
#include "cli/holdings.h"

#include <algorithm>
#include <utility>

namespace spillway {

Bytes Holdings::RoundUp(Bytes bytes) const {
  const Bytes chunk = device_->chunk_bytes();
  return (bytes + chunk - 1) / chunk * chunk;
}

Status Holdings::Reserve(Bytes bytes) {
  const Bytes range = RoundUp(bytes);
  Result<std::byte*> base = device_->ReserveRange(range);
  if (!base) return base.error();
  base_ = *base;
  range_ = range;
  return {};
}

Status Holdings::Take(Bytes bytes) {
  const Bytes before = held_;
  const Bytes goal = std::min(before + RoundUp(bytes), range_);
  while (held_ < goal) {
    if (Status mapped = device_->MapChunk(base_ + held_); !mapped) {
      GiveBackDownTo(before);
      return mapped;
    }
    held_ += device_->chunk_bytes();
  }
  return {};
}

void Holdings::GiveBackDownTo(Bytes bytes) {
  while (held_ > bytes) {
    held_ -= device_->chunk_bytes();
    device_->UnmapChunk(base_ + held_);
  }
}

void Holdings::GiveBack() {
  GiveBackDownTo(0);
  if (base_ != nullptr) device_->ReleaseRange(std::exchange(base_, nullptr), range_);
}

}  // namespace spillway
