// SPDX-License-Identifier: Apache-2.0
// An eviction queue of entries in chains, with a manual clock and an order that ranks it. It calls
// the order as a cache would, without a cache.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "policy/entry_scores.h"
#include "policy/policy.h"

namespace spillway::testing {

class QueueOfEntries final : public FactReader {
 public:
  explicit QueueOfEntries(std::string_view policy, std::size_t history = 1000)
      : idle_(KeyByLastUse, this, RankMark{1}), scores_(this, history) {
    Ranked ranked{this, &idle_, RankMark{2}};
    ranked.scores = &scores_;
    order_ = std::move(MakePolicy(policy, {}, ranked)->order);
  }

  bool Read(EntryId id, Facts* facts) const override {
    const auto at = entries_.find(id.slot);
    if (at == entries_.end() || at->second.tag != id.tag) return false;
    *facts = at->second.facts;
    return true;
  }
  RankMarks* Marks(EntryId id) const override {
    const auto at = entries_.find(id.slot);
    if (at == entries_.end() || at->second.tag != id.tag) return nullptr;
    return const_cast<RankMarks*>(&at->second.marks);
  }

  EntryId Add(std::uint32_t slot, std::uint32_t parent = kNoParent) {
    Entry entry;
    entry.tag = ++tags_;
    entry.parent = parent;
    entry.facts.bytes = 100 + slot % 7;
    entry.facts.tokens = static_cast<Tokens>(10 + slot % 13);
    entry.facts.access_count = 1;
    entry.facts.last_use = now_;
    entry.facts.place = tags_;
    entries_[slot] = entry;
    const EntryId id{slot, entry.tag};
    EntryId of_parent;
    if (parent != kNoParent) {
      ++entries_[parent].facts.children;
      of_parent = {parent, entries_[parent].tag};
    }
    held_ += entry.facts.bytes;
    scores_.OnInsert({.id = id, .hash = slot + 1, .parent = of_parent}, entry.facts, held_, now_);
    Enter(slot);
    return id;
  }
  void Enter(std::uint32_t slot) {
    const Entry& entry = entries_[slot];
    EXPECT_TRUE(idle_.Enter({slot, entry.tag}, entry.facts));
    EXPECT_TRUE(order_->OnInsert({slot, entry.tag}, entry.facts));
  }
  // The entry moves to another queue and can still be read.
  void Leave(std::uint32_t slot) {
    const EntryId id = IdOf(slot);
    order_->OnRemove(id);
    idle_.Left(id);
  }
  void Remove(std::uint32_t slot) {
    const Entry entry = entries_[slot];
    const EntryId id{slot, entry.tag};
    order_->OnRemove(id);
    idle_.Left(id);
    entries_.erase(slot);
    held_ -= entry.facts.bytes;
    scores_.Gone(id, entry.facts, false, now_);
    if (entry.parent == kNoParent || !entries_.contains(entry.parent)) return;
    if (--entries_[entry.parent].facts.children == 0) Enter(entry.parent);
  }
  void Use(std::uint32_t slot) {
    // A chain is used from its root on.
    for (; slot != kNoParent && entries_.contains(slot); slot = entries_[slot].parent) {
      ++entries_[slot].facts.access_count;
      entries_[slot].facts.last_use = now_;
    }
  }
  void Pass(double seconds) {
    now_ += std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
    scores_.Advance(now_, held_);
  }
  std::optional<EntryId> Next(Level level = Level::kPressure) { return order_->Next(level); }

  bool Has(std::uint32_t slot) const { return entries_.contains(slot); }
  std::size_t size() const { return entries_.size(); }
  bool IsLeaf(std::uint32_t slot) const { return entries_.at(slot).facts.children == 0; }
  std::vector<std::uint32_t> Slots() const {
    std::vector<std::uint32_t> slots;
    for (const auto& [slot, entry] : entries_) slots.push_back(slot);
    return slots;
  }
  Order& order() { return *order_; }
  EntryScores& scores() { return scores_; }
  EntryId IdOf(std::uint32_t slot) const { return {slot, entries_.at(slot).tag}; }
  Facts& FactsOf(std::uint32_t slot) { return entries_.at(slot).facts; }
  TimePoint now() const { return now_; }
  Bytes held() const { return held_; }

  static constexpr std::uint32_t kNoParent = ~std::uint32_t{0};

 private:
  struct Entry {
    std::uint32_t tag = 0;
    std::uint32_t parent = kNoParent;
    Facts facts;
    RankMarks marks = 0;
  };
  std::map<std::uint32_t, Entry> entries_;
  Ranking idle_;
  EntryScores scores_;
  std::unique_ptr<Order> order_;
  std::uint32_t tags_ = 0;
  Bytes held_ = 0;
  TimePoint now_{std::chrono::hours(1)};
};

}  // namespace spillway::testing
