// SPDX-License-Identifier: Apache-2.0
// An Aside is the bytes of one value in memory of no tier: of one that only the disk will
// take, or that has no room beside its key's old value, which stays until the command
// has run. All of them together are bounded.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "spillway/units.h"

namespace spillway::server {

class Aside {
 public:
  // What all of them hold. It may outlive the daemon's state: a write on its way to the
  // disk ends when it ends.
  using Held = std::shared_ptr<std::atomic<Bytes>>;

  Aside() = default;
  Aside(Aside&& other) noexcept { *this = std::move(other); }
  Aside& operator=(Aside&& other) noexcept {
    if (this == &other) return *this;
    Free();
    held_ = std::exchange(other.held_, nullptr);
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;
  ~Aside() { Free(); }

  // Memory for `bytes`, not written to. False: there is none, or with others it would be
  // more than `most`. One alone may be larger. Under State::commands.
  bool Take(const Held& held, Bytes bytes, Bytes most) {
    Free();
    const Bytes others = held->load(std::memory_order_relaxed);
    if (others > 0 && others + bytes > most) return false;
    data_.reset(new (std::nothrow) std::byte[bytes]);
    if (data_ == nullptr) return false;
    held_ = held;
    size_ = bytes;
    held->fetch_add(bytes, std::memory_order_relaxed);
    return true;
  }
  void Free() noexcept {
    data_.reset();
    if (held_ != nullptr) held_->fetch_sub(size_, std::memory_order_relaxed);
    held_.reset();
    size_ = 0;
  }

  explicit operator bool() const { return data_ != nullptr; }
  std::byte* data() { return data_.get(); }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_.get()), size_}; }

 private:
  Held held_;
  std::unique_ptr<std::byte[]> data_;
  Bytes size_ = 0;
};

}  // namespace spillway::server
