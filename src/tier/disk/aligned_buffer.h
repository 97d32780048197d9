// SPDX-License-Identifier: Apache-2.0
// Memory as O_DIRECT requires it: whole pages that begin at a page border.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "spillway/units.h"

namespace spillway {

inline constexpr Bytes kPageBytes = 4096;
constexpr Bytes PagesUp(Bytes bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }
inline bool IsPageAligned(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % kPageBytes == 0;
}

// Owns its memory and frees it on destruction.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // The size is rounded up to pages. The content is uninitialized.
  explicit AlignedBuffer(Bytes bytes)
      : bytes_(PagesUp(bytes)),
        data_(static_cast<std::byte*>(std::aligned_alloc(kPageBytes, bytes_))) {
    if (data_ == nullptr) throw std::bad_alloc();
  }
  std::byte* data() const { return data_.get(); }
  Bytes bytes() const { return bytes_; }
  std::span<std::byte> span() const { return {data(), bytes_}; }

 private:
  struct Release {
    void operator()(std::byte* data) const { std::free(data); }
  };
  Bytes bytes_ = 0;
  std::unique_ptr<std::byte, Release> data_;
};

// A pool of buffers of one size. Callable from any thread.
class BufferPool {
 public:
  BufferPool(Bytes bytes, std::size_t idle_max) : bytes_(bytes), idle_max_(idle_max) {
    idle_.reserve(idle_max);  // Give never allocates.
  }

  AlignedBuffer Take() {
    {
      const MutexLock lock(mutex_);
      if (!idle_.empty()) {
        AlignedBuffer buffer = std::move(idle_.back());
        idle_.pop_back();
        return buffer;
      }
    }
    return AlignedBuffer(bytes_);
  }
  void Give(AlignedBuffer buffer) {
    const MutexLock lock(mutex_);
    if (idle_.size() < idle_max_) idle_.push_back(std::move(buffer));
  }

 private:
  const Bytes bytes_;
  const std::size_t idle_max_;
  Mutex mutex_;
  std::vector<AlignedBuffer> idle_ SPILLWAY_GUARDED_BY(mutex_);
};

}  // namespace spillway
