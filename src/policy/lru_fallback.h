// SPDX-License-Identifier: Apache-2.0
// The LRU fallback of the learned score. It compares the hits of the cache with the hits that LRU
// would have had. When the score is behind over a window, LRU ranks for a while, twice as long each
// consecutive time; then the score is tried again. Arithmetic only.
#pragma once

#include <cstddef>
#include <cstdint>

namespace spillway {

// Owned by EntryScores.
class LruFallback {
 public:
  // A window ends after ten minutes and 2,000 uses, whichever is later.
  static constexpr double kWindowS = 600;
  static constexpr std::size_t kWindowUses = 2000;
  // The score is behind if it is more than half a point of hit ratio worse.
  static constexpr double kMargin = 0.005;
  static constexpr std::uint32_t kLongestLead = 16;  // In windows.

  // Counts one use of weight `weight`: how much of it was a hit in the cache, and how much would
  // have been a hit with LRU.
  void Observe(double now_s, std::size_t weight, std::size_t cache, std::size_t by_last_use);

  // LRU ranks now instead of the score.
  bool steps_back() const { return left_ > 0; }
  // How often the fallback became active.
  std::size_t fallbacks() const { return fallbacks_; }

 private:
  // Ends a window: compares the hits and decides which order ranks next.
  void Decide();

  std::uint64_t cache_hits_ = 0;
  std::uint64_t last_use_hits_ = 0;
  std::uint64_t weight_ = 0;
  std::size_t uses_ = 0;
  double began_s_ = -1;
  std::uint32_t lead_windows_ = 1;  // How many windows the next fallback lasts.
  std::uint32_t left_ = 0;          // Windows left in the present one.
  std::size_t fallbacks_ = 0;
};

}  // namespace spillway
