// SPDX-License-Identifier: Apache-2.0
// Hashes of keys that were missed, on their way from readers' threads to the strand.
// Readers never wait: if the strand falls behind, the oldest hashes are overwritten.
// Only the strand may call TakeAll.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace spillway {

class MissRing {
 public:
  void Put(std::uint64_t hash) {
    const std::uint64_t at = head_.fetch_add(1, std::memory_order_relaxed);
    cells_[at % kCells].store(hash, std::memory_order_relaxed);
  }
  template <typename Each>
  void TakeAll(Each&& each) {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    if (head - tail_ > kCells) tail_ = head - kCells;
    for (; tail_ != head; ++tail_) {
      // 0: the writer has claimed the cell but not stored its hash yet.
      const std::uint64_t hash = cells_[tail_ % kCells].exchange(0, std::memory_order_relaxed);
      if (hash != 0) each(hash);
    }
  }

 private:
  static constexpr std::size_t kCells = 1024;
  std::array<std::atomic<std::uint64_t>, kCells> cells_{};
  alignas(64) std::atomic<std::uint64_t> head_{0};
  alignas(64) std::uint64_t tail_ = 0;
};

}  // namespace spillway
