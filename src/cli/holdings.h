// Memory of a device that a command holds: taken and given back chunk by chunk,
// from the beginning of one range of addresses.
#pragma once

#include <cstddef>

#include "device/device.h"
#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

class Holdings {
 public:
  explicit Holdings(Device* device) : device_(device) {}
  ~Holdings() { GiveBack(); }
  Holdings(const Holdings&) = delete;
  Holdings& operator=(const Holdings&) = delete;

  // Once, before anything is taken: addresses for `bytes` in all.
  Status Reserve(Bytes bytes);
  // All of it or nothing, as any allocation, in whole chunks.
  Status Take(Bytes bytes);
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
