// An Order ranks the entries of the cache by how gladly we would let them go.
// It only ranks: rules say who may leave and how far, and cache/ carries the
// plan out. An Order may remember; it never meets a device, a tier or a clock.
// Called only on the engine's strand.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "policy/facts.h"
#include "policy/ranking.h"
#include "spillway/mode.h"

namespace spillway {

// What an entry is worth to keep, in the one unit of the score.
class Appraiser {
 public:
  virtual ~Appraiser() = default;
  // False: it knows too little now, and last use is as good.
  virtual bool speaks() const = 0;
  // Uses a second to be expected, by what such ones did.
  virtual double Rate(EntryId id, const Facts& facts) const = 0;
  // Seconds a byte of it would cost when it is wanted and no longer here.
  virtual double MissCost(EntryId id, const Facts& facts) const = 0;
};

class Order {
 public:
  virtual ~Order() = default;

  // What it ranks by at this level, as events name it ("lru", "heavy").
  virtual std::string_view name(Level level) const = 0;

  // A leaf that may leave from now on: new, put back, or a parent whose last
  // child has left. Harmless if it is known already.
  // False: there was no memory to note all of it.
  virtual bool Entered(EntryId id, const Facts& facts) = 0;
  virtual void Left(EntryId id) = 0;

  // Takes out the leaf that leaves first at this level. Cost grows with what
  // was used since, not with the number of entries. Whoever does not let it go
  // must say Entered again.
  virtual std::optional<EntryId> Next(Level level) = 0;

  // The same by worth alone (appraiser), and only in this order: `idle` still
  // holds it. Also nobody where the order ranks by last use at that moment.
  virtual std::optional<EntryId> NextByWorth() { return std::nullopt; }

  // The key by which two entries compare at this level: least leaves first.
  virtual std::int64_t KeyFor(Level level, const Facts& facts) const = 0;
  // The same where it matters who it is.
  virtual std::int64_t KeyOf(Level level, EntryId id, const Facts& facts) const {
    static_cast<void>(id);
    return KeyFor(level, facts);
  }
  // Null: it does not appraise.
  virtual const Appraiser* appraiser() const { return nullptr; }
};

class EntryScores;

// What an order ranks: the entries `reader` shows. `idle` ranks them by last use
// and is kept by the caller for its own ends (idle limits, TTL); orders that
// rank by last use share it. `mark` is the order's own.
struct Ranked {
  const FactReader* reader = nullptr;
  Ranking* idle = nullptr;
  RankMark mark = 0;
  // For the score: what is learnt of all entries, and which line this is.
  EntryScores* scores = nullptr;
  std::uint8_t line = 0;
  bool top = true;   // Of the top tier.
  bool last = true;  // Who leaves it is gone.
};
std::unique_ptr<Order> MakeDocumentedOrder(const Ranked& ranked);
std::unique_ptr<Order> MakeLruOrder(const Ranked& ranked);
std::unique_ptr<Order> MakeHybridOrder(const Ranked& ranked);
// Needs `ranked.scores`.
std::unique_ptr<Order> MakeScoreOrder(const Ranked& ranked);

}  // namespace spillway
