// Foresight ranks one line of entries by what is known of their future, and
// those of whom nothing is known by last use:
//
//   1. the dead, whom no live run wants;
//   2. those that are wanted, most steps away first, then the least likely, then
//      the latest; and the unknown, longest idle first. Of the first of each the
//      one goes that is less likely to be used soon;
//   3. those that a step could use now; last those that a running one does.
//
// A running step's are spared, unless asked for, while they take no more than
// half of the tier and for ten minutes after the step began or used them.
//
// Who was called dead and is used all the same counts as unknown from then on.
//
// It only ranks. Called on the engine's strand; no call throws.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "policy/order.h"
#include "policy/outlook.h"
#include "policy/ranking.h"

namespace spillway {

class Foresight {
 public:
  enum class Whom : std::uint8_t {
    kUnwanted,  // Dead or unknown: no live run wants them.
    kNotSpared,
    kAnybody,
  };

  // Bytes of running steps in a tier: of all its lines together.
  struct Running {
    Bytes bytes = 0;
    Bytes most = 0;  // So many are spared.
  };
  // `bit` is this line's own among Outlook::queued.
  // `others`, if given, ranks those of whom nothing is known, and appraises all:
  // then those that are wanted leave before them by the same score. Whoever enters
  // here has entered there. Borrowed.
  Foresight(const FactReader* reader, Outlooks* outlooks, std::uint8_t bit, RankMark mark,
            Running* running, Order* others = nullptr)
      : reader_(reader),
        outlooks_(outlooks),
        running_(running),
        bit_(bit),
        others_(others),
        unknown_(KeyByLastUse, reader, mark) {}

  // False: there was no memory to note it.
  bool Entered(EntryId id, const Facts& facts);
  void Left(EntryId id);

  // Takes out who leaves first. Whoever does not let it go must say Entered
  // again.
  std::optional<EntryId> Next(Whom whom);
  // Whether it must not be destroyed now.
  bool Spares(EntryId id, const Facts& facts) const;
  // Whether `a` leaves before `b`.
  bool Before(EntryId a, const Facts& of_a, EntryId b, const Facts& of_b) const;

  std::size_t nodes() const { return nodes_.size(); }

 private:
  struct Node {
    Outlook::Kind kind;
    std::uint32_t steps;
    std::uint32_t version;
    double p;
    double eta_s;
    std::uint64_t place;
    EntryId id;
  };
  static Node NodeOf(const Outlook& outlook, const Facts& facts);
  static bool LeavesBefore(const Node& a, const Node& b);
  static bool After(const Node& a, const Node& b) { return LeavesBefore(b, a); }
  // The first that counts, if it may be taken; its facts in `facts`.
  const Node* Top(Whom whom, Facts* facts);
  void Pop();
  EntryId Take();
  std::optional<EntryId> NextUnknown(Facts* facts);
  std::optional<EntryId> NextByOthers(Facts* facts);
  bool EnterUnknown(EntryId id, const Facts& facts);
  // Who ranks the unknown now by more than last use; null: nobody.
  const Appraiser* appraiser() const {
    const Appraiser* const by = others_ == nullptr ? nullptr : others_->appraiser();
    return by != nullptr && by->speaks() ? by : nullptr;
  }
  // In one unit for both: uses a second, or seconds saved a second and byte.
  double WorthOf(const Outlook& outlook, const Facts& facts) const;
  double WorthOfUnknown(EntryId id, const Facts& facts) const;
  void DropStale();
  void Unqueue(Outlook* outlook);
  bool Spares(const Outlook& outlook, const Facts& facts) const;

  const FactReader* const reader_;
  Outlooks* const outlooks_;
  Running* const running_;
  const std::uint8_t bit_;
  Order* const others_;
  std::vector<Node> nodes_;  // A heap. Old places stay until they are met, or half are old.
  std::size_t stale_ = 0;    // About so many.
  // Who gets an outlook stays in here until it is met.
  Ranking unknown_;
};

}  // namespace spillway
