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

  // The key by which two entries compare at this level: least leaves first.
  virtual std::int64_t KeyFor(Level level, const Facts& facts) const = 0;
};

// What an order ranks: the entries `reader` shows. `idle` ranks them by last use
// and is kept by the caller for its own ends (idle limits, TTL); orders that
// rank by last use share it. `mark` is the order's own.
struct Ranked {
  const FactReader* reader = nullptr;
  Ranking* idle = nullptr;
  RankMark mark = 0;
};
std::unique_ptr<Order> MakeDocumentedOrder(const Ranked& ranked);
std::unique_ptr<Order> MakeLruOrder(const Ranked& ranked);
std::unique_ptr<Order> MakeHybridOrder(const Ranked& ranked);

}  // namespace spillway
