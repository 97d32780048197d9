// A Ranking keeps entries by a key that only grows with use: last use, minus
// tokens per access, ... Because a hit tells nobody, keys kept here may be too
// small, never too large. So the least is looked at again before it is
// believed, and put back with its new key if it has been used since: what Next
// returns is exactly the least, at the cost of one look per entry used
// meanwhile.
//
// Most entries are nowhere near leaving, and keeping those in order would cost
// every set and every use. So only the nearest stand in a heap; the far ones
// lie as they came, and one pass over them brings up the next nearest when the
// heap is empty: a few nanoseconds per entry, once per sixteenth of them.
//
// Invariants
//   1. A live leaf is queued exactly once, unless Next has taken it out.
//   2. queued_[slot] is the tag of the node of that slot that counts, 0: none.
//   3. No node in near_ is after border_, every node in far_ is.
//   4. Nodes of entries that left or have children stay until somebody meets
//      them or half of all nodes are such leftovers; then they are thrown away.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "policy/facts.h"

namespace spillway {

class Ranking {
 public:
  // Least leaves first. Must never fall while the entry lives.
  using KeyOf = std::int64_t (*)(const Facts&);
  static constexpr std::int64_t kNoBound = std::numeric_limits<std::int64_t>::max();

  Ranking(KeyOf key_of, const FactReader* reader) : key_of_(key_of), reader_(reader) {}

  // Queues a leaf; nothing happens if it is queued already.
  void Enter(EntryId id, const Facts& facts);
  // `id` is gone. Cheap: its node is thrown away later.
  void Left(EntryId id);

  // Takes out the live leaf with the least key, if that is at most `bound`.
  // Whoever does not let it go must Enter it again.
  std::optional<EntryId> Next(std::int64_t bound = kNoBound);

  std::int64_t KeyFor(const Facts& facts) const { return key_of_(facts); }

 private:
  struct Node {
    std::int64_t key;
    std::uint64_t place;
    EntryId id;
  };
  static constexpr Node kBeforeAll{std::numeric_limits<std::int64_t>::min(), 0, {}};
  static bool Before(const Node& a, const Node& b) {
    return a.key != b.key ? a.key < b.key : a.place < b.place;
  }
  bool Counts(EntryId id) const { return id.slot < queued_.size() && queued_[id.slot] == id.tag; }
  void Put(const Node& node);

  // The heap of near ones.
  void Push(const Node& node);
  void PopTop();
  void SiftDown(std::size_t at, Node node);
  void MoveTo(std::size_t at, const Node& node);

  // Moves the border up, so that near_ has some of far_, if there is any.
  void BringNear();
  // A node that about `count` of far_ are not after; it is one of them.
  Node NewBorder(std::size_t count) const;
  void PutAllFar();
  // Reads every node anew.
  void Refresh();
  void DropLeftovers();

  const KeyOf key_of_;
  const FactReader* const reader_;
  std::vector<Node> near_;  // Four children a node: half the cache lines of two.
  std::vector<Node> far_;   // In no order.
  Node border_ = kBeforeAll;
  std::int64_t far_least_ = kNoBound;  // No key in far_ is less.
  std::vector<std::uint32_t> queued_;
  std::size_t leftovers_ = 0;
  std::size_t used_since_ = 0;  // Nodes met with too small a key since the last refresh.
};

// Keys. `place` breaks ties, so equal entries leave as they came.
std::int64_t KeyByLastUse(const Facts& facts);  // "lru"
std::int64_t KeyByWeight(const Facts& facts);   // "heavy": most tokens per access first
std::int64_t KeyByHybrid(const Facts& facts);   // "hybrid": last use + 10 s per access

}  // namespace spillway
