// SPDX-License-Identifier: Apache-2.0
// A Ranking orders entries by a key that only grows with use: last use, minus tokens per access,
// and so on. A hit does not call it, so keys stored here may be too small, never too large.
// Therefore Next reads the least entry again before returning it, and reinserts it with its new key
// if it has been used. What Next returns is exactly the least, at the cost of one read per entry
// used meanwhile.
//
// Most entries are far from eviction, and keeping them sorted would slow down every set and every
// use. So only the few nearest to eviction are sorted, in the front. The others are in bands: each
// band is nearer than the one before it, and unordered inside. When the front is empty the nearest
// band is cut: about an eighth of it becomes a new band, until one is small enough to be sorted
// into the front. An entry is compared about eight times in each band it passes, in sequential
// memory.
//
// Invariants
//   1. A live leaf is queued exactly once, unless Next has taken it out.
//   2. An entry has this ranking's mark while one of its nodes is valid.
//   3. Floors fall from band to band. Every node in a band is after its floor and, except in the
//      first band, not after the floor of the band before; no node of the front is after the last
//      floor.
//   4. No call throws. Without memory an entry may not be queued (Enter), or none may be found
//      (Next); a later call tries again.
//   5. Nodes of entries that were removed or have children stay until they are met, or until half
//      of all nodes are such leftovers; then they are dropped. An entry that was removed and
//      entered again has several nodes until then; one is valid.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "policy/facts.h"

namespace spillway {

class Ranking {
 public:
  // The key of an entry; the least is evicted first. Must not decrease while the entry lives.
  using KeyOf = std::int64_t (*)(const Facts&);
  static constexpr std::int64_t kNoBound = std::numeric_limits<std::int64_t>::max();

  // `mark` is one bit, different for each ranking of the same entries.
  Ranking(KeyOf key_of, const FactReader* reader, RankMark mark)
      : key_of_(key_of), reader_(reader), mark_(mark), bands_(1) {}

  // Queues a leaf; does nothing if it is queued already. False: no memory.
  bool Enter(EntryId id, const Facts& facts);
  // Removes `id`. Cheap: its node is dropped later.
  void Left(EntryId id);

  // Removes and returns the live leaf with the least key, if that is at most `bound`. If the caller
  // does not evict it, it must Enter it again.
  std::optional<EntryId> Next(std::int64_t bound = kNoBound);

  std::int64_t KeyFor(const Facts& facts) const { return key_of_(facts); }
  bool Holds(EntryId id) const { return Marked(id) != nullptr; }
  // The entry that Next may return `ahead` calls from now, so that the caller can prefetch its own
  // data.
  std::optional<EntryId> Coming(std::size_t ahead) const {
    if (ahead >= front_.size()) return std::nullopt;
    return front_[front_.size() - 1 - ahead].id;
  }

 private:
  // An entry with the key it had when the node was stored.
  struct Node {
    std::int64_t key;
    std::uint64_t place;
    EntryId id;
  };
  static constexpr Node kBeforeAll{std::numeric_limits<std::int64_t>::min(), 0, {}};
  static bool Before(const Node& a, const Node& b) {
    return a.key != b.key ? a.key < b.key : a.place < b.place;
  }
  // An unordered set of nodes between two floors.
  struct Band {
    std::vector<Node> nodes = {};
    Node floor = kBeforeAll;
    std::int64_t least = kNoBound;  // A lower bound of the keys in the band.

    void Add(const Node& node);
    void Clear();
  };
  // The entry's marks, if this ranking's mark is set; else null.
  RankMarks* Marked(EntryId id) const;
  void Unmark(RankMarks* marks) const { *marks &= static_cast<RankMarks>(~mark_); }
  std::optional<EntryId> FindNext(std::int64_t bound);
  // These throw bad_alloc without having changed the ranking, except that BringNear may have cut
  // bands.
  void Put(const Node& node);
  // Inserts into the sorted front; overflows into the nearest band.
  void PutInFront(const Node& node);

  // Fills the front from the nearest band, or removes that band if it is empty.
  void BringNear();
  // Makes the nearest eighth of the nearest band a band of its own.
  void CutNearest();
  // Moves the nodes that are not after `floor` to `cut`: by the stored keys, or by keys read again.
  void CutAsKnown(const Node& floor, Band* from, Band* cut);
  void CutAnew(const Node& floor, Band* from, Band* cut);
  void TakeSample();  // Of the nearest band.
  // Whether most of the sample has been used; if so, the sample holds true keys afterwards.
  bool MostOfSampleUsed();
  // Calls `each(node, facts, marks)` for the valid ones of `nodes`. It may write to nodes before
  // the one it is shown.
  template <typename Each>
  void ReadAll(const std::vector<Node>& nodes, Each&& each) const;
  // Moves all nodes into the first band.
  void PutAllFar();
  // Removes all invalid nodes.
  void DropLeftovers();
  Band& nearest() { return bands_[depth_ - 1]; }

  const KeyOf key_of_;
  const FactReader* const reader_;
  const RankMark mark_;
  std::vector<Node> front_;  // Sorted, the least at the end.
  std::vector<Band> bands_;  // Bands from `depth_` on are unused; they only keep their memory.
  std::size_t depth_ = 1;
  std::size_t nodes_ = 0;  // In the front and in all bands.
  std::size_t leftovers_ = 0;
  std::vector<Node> sample_;
};

// Keys. Ties are broken by `place`, so equal entries are evicted in order of insertion.
std::int64_t KeyByLastUse(const Facts& facts);  // "lru"
std::int64_t KeyByWeight(const Facts& facts);   // "heavy": most tokens per access first
std::int64_t KeyByHybrid(const Facts& facts);   // "hybrid": last use + 10 s per access

}  // namespace spillway
