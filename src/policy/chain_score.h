// The learnt score over chains of blocks, whole: who waits and how soon such
// ones come back (Waits, ReturnTable), who enters and who leaves, under a guard.
//
// Blocks that one request used and that were used equally often wait together,
// as one unit: a stretch of the chain. A later request that uses the upper part
// of it takes that part away. Only the deepest block of a unit can leave, and
// only when nothing there continues it; so what is there of a chain is always a
// leading run. A newcomer worth less than who would have to leave for it is
// refused; it waits all the same, in history only, and is learnt from.
//
// A unit's class: what the session waits for and any hint; how often it was
// used; the turn of the conversation; the pause before this turn. A session that
// is said to be done moves, with what it alone uses, to a class of its own: if
// such ones come back after all, that too is learnt.
//
// The score has no bytes and no clock and knows the future only by hints. It is
// plain LRU until it has seen something.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "policy/block_cache.h"
#include "policy/guard.h"
#include "policy/shadow.h"
#include "policy/waits.h"

namespace spillway {

class ChainScore final : public BlockCache {
 public:
  struct Settings {
    bool guarded = true;
    bool refuses = true;  // Admission.
    std::size_t waits_max = Waits::kWaitsMax;
  };
  ChainScore(std::size_t capacity, const Settings& settings);
  explicit ChainScore(std::size_t capacity) : ChainScore(capacity, Settings()) {}

  std::string_view name() const override { return "score"; }
  std::size_t Serve(const Visit& visit) override;
  bool Holds(BlockId block) const override { return set_.Holds(block); }
  std::size_t size() const override { return set_.size(); }
  std::size_t capacity() const override { return set_.capacity(); }
  std::uint64_t entered() const override { return set_.entered(); }

  std::uint64_t refused() const { return refused_; }  // Requests cut short by admission.
  const Guard& guard() const { return guard_; }
  std::size_t waiting() const { return waits_.size(); }

 private:
  static constexpr WaitId kNoUnit = ~WaitId{0};
  struct Block {
    WaitId unit = kNoUnit;  // In which it waits; none: unknown or forgotten.
    BlockId parent = kNoBlock;
    std::uint32_t uses = 0;
    std::uint32_t children = 0;  // There now.
    std::uint32_t chain = 0;     // Length of the chain that brought it,
    std::uint32_t turn = 0;      // and its turn.
    std::uint64_t session = 0;   // Who used it first;
    bool shared = false;         // and whether others did since.
  };
  struct Unit {
    BlockId deepest = kNoBlock;  // Of those there.
    BlockId tail = kNoBlock;     // Of all who wait.
    std::uint32_t waiting = 0;   // Blocks, there or not.
    std::uint32_t there = 0;
    std::uint32_t uses = 0;  // A level of use.
    std::uint64_t session = 0;
    WaitId before = kNoUnit;  // Of the same session.
    WaitId after = kNoUnit;
    bool shared = false;
  };
  struct Turn {
    std::uint32_t number = 0;
    std::uint32_t pause = 0;  // A level; 0: it continues nobody.
  };

  Turn TurnOf(const Visit& visit) const;
  void Arrive(const Visit& visit);
  void TakeOut(std::span<const BlockId> stretch, double now);
  void NoteBlocks(const Visit& visit, std::uint32_t turn);
  void MakeUnits(const Visit& visit, const Turn& turn);
  ReturnClass ClassOf(const Visit& visit, const Turn& turn, std::uint32_t uses, bool shared);
  ReturnClass DoneClass(std::uint32_t uses);
  void EnterMissing(const Visit& visit, std::size_t from);
  bool MakeRoom(BlockId newcomer, double now, std::optional<Waits::Candidate>* victim);
  std::optional<Waits::Candidate> Worst(Leader leader, double now);
  void Evict(WaitId unit);
  void OfferUnits();
  void EndSession(std::uint64_t session, double now);
  void Forget(WaitId unit);
  void DropUnit(WaitId unit);  // Out of its session's list.
  bool MayLeave(const Unit& unit) const;

  const Settings settings_;
  BlockSet set_;
  Waits waits_;
  std::vector<Block> blocks_;
  std::vector<Unit> units_;                             // By WaitId.
  std::unordered_map<std::uint64_t, WaitId> sessions_;  // The newest unit of each.
  std::vector<WaitId> fresh_;                           // Units of the request being served.
  std::vector<WaitId> forgotten_;
  std::uint64_t refused_ = 0;

  Guard guard_;
  LruBlocks recency_;
  LfuBlocks frequency_;
};

}  // namespace spillway
