// The guard over the learnt score: it compares what the cache hits with what its
// shadows (LRU, and how often) would have hit, and names the order to use. When
// the score is behind the better shadow over a window, that one leads for a
// while, twice as long each time in a row; then the score is tried again.
// Arithmetic only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace spillway {

enum class Leader : std::uint8_t { kScore, kRecency, kFrequency };

class Guard {
 public:
  // A window ends after both. Ten minutes and 2,000 requests.
  static constexpr double kWindowS = 600;
  static constexpr std::size_t kWindowRequests = 2000;
  // Half a point.
  static constexpr double kMargin = 0.005;
  static constexpr std::uint32_t kLongestLead = 16;  // Windows.

  // One request of `blocks` blocks: leading runs hit by the cache and by its
  // shadows.
  void Observe(double now_s, std::size_t blocks, std::size_t cache, std::size_t recency,
               std::size_t frequency);

  Leader leader() const { return leader_; }
  // How often the score had to step back.
  std::size_t fallbacks() const { return fallbacks_; }

 private:
  void Decide();

  std::array<std::uint64_t, 3> hits_{};  // By Leader; the cache's own first.
  std::uint64_t blocks_ = 0;
  std::size_t requests_ = 0;
  double began_s_ = -1;
  Leader leader_ = Leader::kScore;
  std::uint32_t lead_windows_ = 1;  // How long a shadow leads the next time.
  std::uint32_t left_ = 0;          // Windows it still leads.
  std::size_t fallbacks_ = 0;
};

}  // namespace spillway
