// Memory as O_DIRECT wants it: whole pages, at a page's border.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <vector>

#include "spillway/units.h"

namespace spillway {

inline constexpr Bytes kPageBytes = 4096;
constexpr Bytes PagesUp(Bytes bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }
inline bool IsPageAligned(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % kPageBytes == 0;
}

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // Rounded up to pages. Its content is whatever was there.
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

// Buffers of one size that are used again. Callable from any thread.
class BufferPool {
 public:
  BufferPool(Bytes bytes, std::size_t idle_max) : bytes_(bytes), idle_max_(idle_max) {
    idle_.reserve(idle_max);  // Giving back needs no memory.
  }

  AlignedBuffer Take() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        AlignedBuffer buffer = std::move(idle_.back());
        idle_.pop_back();
        return buffer;
      }
    }
    return AlignedBuffer(bytes_);
  }
  void Give(AlignedBuffer buffer) {
    const std::lock_guard lock(mutex_);
    if (idle_.size() < idle_max_) idle_.push_back(std::move(buffer));
  }

 private:
  const Bytes bytes_;
  const std::size_t idle_max_;
  std::mutex mutex_;
  std::vector<AlignedBuffer> idle_;  // Guarded by mutex_.
};

}  // namespace spillway
