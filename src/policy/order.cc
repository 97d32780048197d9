// SPDX-License-Identifier: Apache-2.0
#include "policy/order.h"

namespace spillway {

namespace {

// Ranks by last use only, with the ranking its owner keeps anyway.
class LruOrder final : public Order {
 public:
  explicit LruOrder(Ranking* idle) : idle_(idle) {}
  std::string_view name(Level) const override { return "lru"; }
  bool OnInsert(EntryId, const Facts&) override { return true; }
  void OnRemove(EntryId) override {}
  std::optional<EntryId> Next(Level) override { return idle_->Next(); }
  std::int64_t KeyFor(Level, const Facts& facts) const override { return KeyByLastUse(facts); }

 private:
  Ranking* const idle_;
};

// The order of the mode table: last use at low levels, tokens per access under pressure.
class DocumentedOrder final : public Order {
 public:
  explicit DocumentedOrder(const Ranked& ranked)
      : idle_(ranked.idle), heavy_(KeyByWeight, ranked.reader, ranked.mark) {}
  std::string_view name(Level level) const override { return ByWeight(level) ? "heavy" : "lru"; }
  bool OnInsert(EntryId id, const Facts& facts) override { return heavy_.Enter(id, facts); }
  void OnRemove(EntryId id) override { heavy_.Left(id); }
  std::optional<EntryId> Next(Level level) override {
    return ByWeight(level) ? heavy_.Next() : idle_->Next();
  }
  std::int64_t KeyFor(Level level, const Facts& facts) const override {
    return ByWeight(level) ? KeyByWeight(facts) : KeyByLastUse(facts);
  }

 private:
  static bool ByWeight(Level level) { return level >= Level::kPressure; }
  Ranking* const idle_;
  Ranking heavy_;
};

class HybridOrder final : public Order {
 public:
  explicit HybridOrder(const Ranked& ranked) : ranking_(KeyByHybrid, ranked.reader, ranked.mark) {}
  std::string_view name(Level) const override { return "hybrid"; }
  bool OnInsert(EntryId id, const Facts& facts) override { return ranking_.Enter(id, facts); }
  void OnRemove(EntryId id) override { ranking_.Left(id); }
  std::optional<EntryId> Next(Level) override { return ranking_.Next(); }
  std::int64_t KeyFor(Level, const Facts& facts) const override { return KeyByHybrid(facts); }

 private:
  Ranking ranking_;
};

}  // namespace

std::unique_ptr<Order> MakeDocumentedOrder(const Ranked& ranked) {
  return std::make_unique<DocumentedOrder>(ranked);
}

std::unique_ptr<Order> MakeLruOrder(const Ranked& ranked) {
  return std::make_unique<LruOrder>(ranked.idle);
}

std::unique_ptr<Order> MakeHybridOrder(const Ranked& ranked) {
  return std::make_unique<HybridOrder>(ranked);
}

}  // namespace spillway
