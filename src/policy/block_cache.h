// A cache of blocks that holds no bytes: who would be there, by some order. The
// guard's shadows and everything `spillway replay` compares keep to this one
// interface and its rules:
//
// - A request names a chain of blocks, root first. It hits the unbroken run of
//   leading blocks that are there.
// - Its own blocks are pinned while it is served; what is missing enters root
//   first while there is room or somebody who may leave.
// - Among blocks used at one time the deepest leaves first.
//
// Pure: no clock, no bytes, and the same visits give the same answers. Not safe
// from several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace spillway {

using BlockId = std::uint32_t;  // Dense, from 0 on: arrays are as long as the greatest.
inline constexpr BlockId kNoBlock = ~BlockId{0};
inline constexpr std::uint32_t kNeverAgain = ~std::uint32_t{0};

struct Visit {
  std::span<const BlockId> chain;  // Each block at most once.
  double now_s = 0;                // Never falls.
  std::uint64_t session = 0;
  // What the session waits for after it, as the client says: a small number, 0
  // when it says nothing.
  std::uint32_t state = 0;
  std::optional<bool> again;  // A hint: it will be back, or not.
  bool done = false;          // A hint: the whole session is over.
  // Oracles only: which visit, from 0 on, and which one uses each block next
  // (kNeverAgain: none). Empty for everybody else.
  std::uint32_t number = 0;
  std::span<const std::uint32_t> next_use;
};

class BlockCache {
 public:
  virtual ~BlockCache() = default;

  virtual std::string_view name() const = 0;
  // Length of the leading run that was there.
  virtual std::size_t Serve(const Visit& visit) = 0;
  virtual bool Holds(BlockId block) const = 0;
  // Blocks there now: never more than capacity.
  virtual std::size_t size() const = 0;
  virtual std::size_t capacity() const = 0;
  // Blocks that entered, ever.
  virtual std::uint64_t entered() const = 0;
};

// Which blocks are there, for those who implement a BlockCache.
class BlockSet {
 public:
  explicit BlockSet(std::size_t capacity) : capacity_(capacity) {}

  bool Holds(BlockId block) const { return block < there_.size() && there_[block] != 0; }
  bool full() const { return size_ >= capacity_; }
  std::size_t size() const { return size_; }
  std::size_t capacity() const { return capacity_; }
  std::uint64_t entered() const { return entered_; }

  // Room in the arrays for every block of `chain`; true when they grew.
  bool Fit(std::span<const BlockId> chain);
  std::size_t blocks() const { return there_.size(); }
  std::size_t LeadingRun(std::span<const BlockId> chain) const;
  void Add(BlockId block) {
    there_[block] = 1;
    ++size_;
    ++entered_;
  }
  void Remove(BlockId block) {
    there_[block] = 0;
    --size_;
  }

 private:
  const std::size_t capacity_;
  std::vector<std::uint8_t> there_;
  std::size_t size_ = 0;
  std::uint64_t entered_ = 0;
};

// What most of them share: those who rank single blocks by what happened to them.
class RankedBlockCache : public BlockCache {
 public:
  explicit RankedBlockCache(std::size_t capacity) : set_(capacity) {}
  std::size_t Serve(const Visit& visit) override;
  bool Holds(BlockId block) const override { return set_.Holds(block); }
  std::size_t size() const override { return set_.size(); }
  std::size_t capacity() const override { return set_.capacity(); }
  std::uint64_t entered() const override { return set_.entered(); }

 protected:
  // Arrays must hold `blocks` blocks from now on.
  virtual void Grow(std::size_t blocks) = 0;
  // A request begins: `chain` is what it names.
  virtual void Begin(const Visit& visit) { static_cast<void>(visit); }
  // `block` is there and may not leave until it is Used.
  virtual void Pin(BlockId block) = 0;
  // Takes out who leaves so that `newcomer` can enter; nobody: kNoBlock.
  virtual BlockId Victim(BlockId newcomer) = 0;
  // The request is over for `block`: `entered` when it was not there before.
  // Called deepest first.
  virtual void Used(BlockId block, bool entered) = 0;

 private:
  BlockSet set_;
};

}  // namespace spillway
