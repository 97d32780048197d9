// The Chronicle writes down every turn as a line of a log that `spillway replay`
// reads, and keeps a shadow beside the daemon: what a cache by last use would
// hold of the same blocks, in the same memory.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "demo/lru_shadow.h"
#include "demo/witness.h"
#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway::demo {

class Chronicle final : public Witness {
 public:
  // Tokens of one id of the log. All blocks are a multiple of it.
  static constexpr Tokens kUnit = 128;

  static Result<std::unique_ptr<Chronicle>> Open(const std::string& path, Bytes bytes_per_token);
  ~Chronicle() override;
  Chronicle(const Chronicle&) = delete;
  Chronicle& operator=(const Chronicle&) = delete;

  void Began(const std::string& agent, std::span<const Block> blocks, std::size_t found) override;
  void Ended(const std::string& agent, std::span<const Block> blocks, Tokens asked,
             Tokens found) override;
  void Forgot(std::span<const std::string> keys) override;

  // Memory that is ours to use now, card and RAM together.
  void SetMemory(Bytes bytes);
  // Of these blocks: how many a cache by last use would have now.
  std::size_t HeldByLru(std::span<const std::string> keys) const;

  struct Totals {
    std::uint64_t requests = 0;
    Tokens asked = 0;
    Tokens found = 0;
    Bytes memory = 0;  // On average, over all that SetMemory was told.
  };
  Totals totals() const;
  const std::string& path() const { return path_; }
  // Whether all of it was written. Nothing is any more.
  Status Finish();

 private:
  Chronicle(std::string path, std::FILE* file, Bytes bytes_per_token);
  std::uint64_t FirstIdOf(const Block& block);

  const std::string path_;
  const Bytes bytes_per_token_;
  const std::int64_t start_ms_;

  mutable std::mutex mutex_;  // Guards all that follows.
  std::FILE* file_;
  LruShadow lru_;
  std::unordered_map<std::string, std::uint64_t> ids_;
  std::uint64_t next_id_ = 1;
  Totals totals_;
  double memory_sum_ = 0;
  std::uint64_t memory_count_ = 0;
};

}  // namespace spillway::demo
