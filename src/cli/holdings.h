// SPDX-License-Identifier: Apache-2.0
// Memory of a device that a command holds. It is taken and returned in chunks, from the begin of
// one address range.
#pragma once

#include <cstddef>

#include "device/device.h"
#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

// Frees everything on destruction.
class Holdings {
 public:
  explicit Holdings(Device* device) : device_(device) {}
  ~Holdings() { GiveBack(); }
  Holdings(const Holdings&) = delete;
  Holdings& operator=(const Holdings&) = delete;

  // Reserves addresses for `bytes` in all. Called once, before anything is taken.
  Status Reserve(Bytes bytes);
  // Takes all of it or nothing, in whole chunks.
  Status Take(Bytes bytes);
  // Frees chunks from the end, until at most `bytes` are held.
  void GiveBackDownTo(Bytes bytes);
  void GiveBack();
  Bytes held() const { return held_; }
  std::byte* base() const { return base_; }

 private:
  Bytes RoundUp(Bytes bytes) const;

  Device* const device_;
  std::byte* base_ = nullptr;
  Bytes range_ = 0;
  Bytes held_ = 0;
};

}  // namespace spillway
