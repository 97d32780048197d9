// SPDX-License-Identifier: Apache-2.0
// A table whose address space is reserved when it is made and whose memory is used as it is
// touched. Large tables use large pages: records are read in random order, and with small pages
// each read would miss the TLB. Elements are zero until they are written.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "base/reserved_memory.h"

namespace spillway {

template <typename T>
class ZeroedTable {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  ZeroedTable() = default;
  // Has size 0 if the system refuses.
  explicit ZeroedTable(std::size_t size)
      : data_(size == 0 ? nullptr : static_cast<T*>(ReserveZeroed(size * sizeof(T)))),
        size_(data_ == nullptr ? 0 : size) {}
  ~ZeroedTable() { UnreserveZeroed(data_, size_ * sizeof(T)); }
  ZeroedTable(ZeroedTable&& other) noexcept { Swap(other); }
  ZeroedTable& operator=(ZeroedTable&& other) noexcept {
    Swap(other);
    return *this;
  }
  ZeroedTable(const ZeroedTable&) = delete;
  ZeroedTable& operator=(const ZeroedTable&) = delete;

  T& operator[](std::size_t at) { return data_[at]; }
  const T& operator[](std::size_t at) const { return data_[at]; }
  std::size_t size() const { return size_; }

 private:
  void Swap(ZeroedTable& other) {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace spillway
