// SPDX-License-Identifier: Apache-2.0
// The Board is what the stress program knows to be true, independently of the cache:
// the keys, how often each has been set, what was evicted, and every complaint.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "spillway/event.h"

namespace spillway::stress {

struct Settings {
  std::uint64_t ops = 200'000;
  unsigned threads = 4;
  std::uint64_t seed = 1;
  std::string policy = "documented";
  int hash_bits = 13;  // Fewer than the keys need: every chain has collisions.
};

// Keys by number. The first `own` have one writer each, the next `common` are set by
// all threads, the rest are blocks of chains, each the child of the one before.
struct Keys {
  static constexpr std::size_t kOwn = 3000;
  static constexpr std::size_t kCommon = 600;
  static constexpr std::size_t kChains = 60;
  static constexpr std::size_t kBlocks = 8;
  static constexpr std::size_t kAll = kOwn + kCommon + kChains * kBlocks;

  Keys();
  std::string_view operator[](std::size_t id) const { return names[id]; }
  static bool IsOwn(std::size_t id) { return id < kOwn; }
  static std::size_t Block(std::size_t chain, std::size_t block) {
    return kOwn + kCommon + chain * kBlocks + block;
  }

  std::vector<std::string> names;
};

// An entry's tokens, computed from key and count.
std::int64_t TokensOf(std::uint64_t key, std::uint64_t count);

class Board {
 public:
  explicit Board(const Settings& settings);

  // The number of the next set of that key.
  std::uint64_t Issue(std::size_t key) { return issued_[key].fetch_add(1) + 1; }
  std::uint64_t issued(std::size_t key) const { return issued_[key].load(); }

  // The cache's listener: runs on its strand, which makes it safe.
  void OnEvent(const Event& event);
  std::uint64_t events() const { return events_; }

  void Fail(const std::string& what);
  std::uint64_t failures() const { return failures_.load(); }

  const Settings settings;
  const Keys keys;

 private:
  std::unique_ptr<std::atomic<std::uint64_t>[]> issued_;
  std::vector<bool> left_;  // By generation. Strand only.
  std::uint64_t events_ = 0;
  std::mutex mutex_;  // One complaint at a time.
  std::atomic<std::uint64_t> failures_{0};
};

}  // namespace spillway::stress
