// A Ranking keeps entries by a key that only grows with use: last use, minus
// tokens per access, ... Because a hit tells nobody, keys kept here may be too
// small, never too large. So the least is looked at again before it is
// believed, and put back with its new key if it has been used since: what Next
// returns is exactly the least, at the cost of one look per entry used
// meanwhile.
//
// Most entries are nowhere near leaving, and keeping those in order would cost
// every set and every use. So only the few nearest stand in order, in the
// front; the others lie in bands, each nearer than the one before it and in no
// order within. When the front is empty the nearest band is cut: about an
// eighth of it becomes a band of its own, until one is small enough to be
// sorted into the front. An entry pays for about eight looks at a neighbour in
// each band it passes, all in a row in memory.
//
// Invariants
//   1. A live leaf is queued exactly once, unless Next has taken it out.
//   2. An entry carries this ranking's mark while a node of it counts.
//   3. Floors fall from band to band. Every node in a band is after its floor
//      and, but for the first band, not after the floor of the band before;
//      no node of the front is after the last floor.
//   4. No call throws. Without memory an entry may not be queued (Enter), or
//      nobody may be found (Next): then that is so until somebody asks again.
//   5. Nodes of entries that left or have children stay until somebody meets
//      them or half of all nodes are such leftovers; then they are thrown away.
//      Who left and entered again has several nodes until then; one counts.
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

  // One bit that tells the rankings of one table of entries apart.
  Ranking(KeyOf key_of, const FactReader* reader, RankMark mark)
      : key_of_(key_of), reader_(reader), mark_(mark), bands_(1) {}

  // Queues a leaf; nothing happens if it is queued already. False: there was no
  // memory for that.
  bool Enter(EntryId id, const Facts& facts);
  // `id` is about to go, or enters again later. Cheap: its node is thrown away later.
  void Left(EntryId id);

  // Takes out the live leaf with the least key, if that is at most `bound`.
  // Whoever does not let it go must Enter it again.
  std::optional<EntryId> Next(std::int64_t bound = kNoBound);

  std::int64_t KeyFor(const Facts& facts) const { return key_of_(facts); }
  bool Holds(EntryId id) const { return Marked(id) != nullptr; }
  // Who may come `ahead` calls of Next from now, to fetch what is kept of it elsewhere.
  std::optional<EntryId> Coming(std::size_t ahead) const {
    if (ahead >= front_.size()) return std::nullopt;
    return front_[front_.size() - 1 - ahead].id;
  }

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
  struct Band {
    std::vector<Node> nodes = {};
    Node floor = kBeforeAll;
    std::int64_t least = kNoBound;  // No key in it is less.

    void Add(const Node& node);
    void Clear();
  };
  // Its marks, if it has this ranking's; else null.
  RankMarks* Marked(EntryId id) const;
  void Unmark(RankMarks* marks) const { *marks &= static_cast<RankMarks>(~mark_); }
  std::optional<EntryId> FindNext(std::int64_t bound);
  // These throw bad_alloc, and then all is as it was; but BringNear may have cut
  // some bands.
  void Put(const Node& node);
  void PutInFront(const Node& node);

  // Fills the front from the nearest band; if that is empty, takes it away.
  void BringNear();
  // The nearest eighth of the nearest band becomes a band of its own.
  void CutNearest();
  // What is not after `floor`, by the keys as they were put down, or read anew.
  void CutAsKnown(const Node& floor, Band* from, Band* cut);
  void CutAnew(const Node& floor, Band* from, Band* cut);
  void TakeSample();  // Of the nearest band.
  // If so, the sample has true keys from now on.
  bool MostOfSampleUsed();
  // `each(node, facts, marks)` for those of `nodes` that count. It may write
  // to nodes before the one it is shown.
  template <typename Each>
  void ReadAll(const std::vector<Node>& nodes, Each&& each) const;
  void PutAllFar();
  void DropLeftovers();
  Band& nearest() { return bands_[depth_ - 1]; }

  const KeyOf key_of_;
  const FactReader* const reader_;
  const RankMark mark_;
  std::vector<Node> front_;  // In order, the least at the end.
  std::vector<Band> bands_;  // From `depth_` on: none, kept for their memory.
  std::size_t depth_ = 1;
  std::size_t nodes_ = 0;  // In the front and all bands.
  std::size_t leftovers_ = 0;
  std::vector<Node> sample_;
};

// Keys. `place` breaks ties, so equal entries leave as they came.
std::int64_t KeyByLastUse(const Facts& facts);  // "lru"
std::int64_t KeyByWeight(const Facts& facts);   // "heavy": most tokens per access first
std::int64_t KeyByHybrid(const Facts& facts);   // "hybrid": last use + 10 s per access

}  // namespace spillway
