// SPDX-License-Identifier: Apache-2.0
// The cache's answers and its internal state, compared with the model.
#include <algorithm>
#include <array>
#include <unordered_map>

#include <fmt/format.h>

#include "base/printable.h"
#include "cache/testing/group_counts.h"
#include "sim/judge.h"
#include "sim/value.h"

namespace spillway::sim {

EntryNo Judge::Found(std::uint32_t key, bool found, TimePoint now, std::string_view who) {
  const EntryNo expected = model_.VisibleOf(key, now);
  if (found == (expected != kNobody)) return expected;
  if (found) {
    Fail(kValues, fmt::format("{} '{}' found something, but there is no committed set of it", who,
                              Printable(model_.key(key))));
  } else {
    Fail(kValues, fmt::format("{} missed {}, and no event said why", who, Describe(expected)));
  }
  return kNobody;
}

void Judge::CheckLease(EntryNo entry, const spillway::Lease& lease, std::string_view when) {
  if (verdict_->failed()) return;
  Entry& e = model_.at(entry);
  if (e.generation == 0) e.generation = lease.generation();
  if (lease.size() != e.size || lease.tokens() != e.tokens || lease.generation() != e.generation) {
    return Fail(kValues,
                fmt::format("{}: a lease on {} shows {} bytes, {} tokens, generation {} (was {})",
                            when, Describe(entry), lease.size(), lease.tokens(), lease.generation(),
                            e.generation));
  }
  if (!setting_.has_bytes) return;
  const Bytes wrong = Value(e.set, e.size).FirstWrong(lease.data());
  if (wrong != e.size) {
    Fail(when == "get" ? kValues : kLeases,
         fmt::format("{}: byte {} of {} is not what was set", when, wrong, Describe(entry)));
  }
}

void Judge::CheckEvictionOrder(const std::vector<std::string>& order, TimePoint now) {
  if (verdict_->failed()) return;
  now_ = now;
  const By by = InForce(pressure_.level());
  std::vector<EntryNo> leaves;
  std::unordered_map<EntryNo, std::uint32_t> children;
  for (const EntryNo number : model_.live()) {
    const Entry& e = model_.at(number);
    children[number] = e.children;
    if (e.children == 0 && e.leases == 0) leaves.push_back(number);
  }
  for (const std::string& key : order) {
    if (leaves.empty()) return Fail(kWhoLeaves, "the leaving order names too many");
    const auto first =
        Ranks(by) ? std::ranges::min_element(leaves,
                                             [&](EntryNo a, EntryNo b) {
                                               return Before(by, model_.at(a), model_.at(b));
                                             })
                  : std::ranges::find(leaves, key, [&](EntryNo leaf) -> const std::string& {
                      return model_.key(model_.at(leaf).key);
                    });
    if (first == leaves.end()) {
      return Fail(kWhoLeaves, fmt::format("the leaving order has '{}', which may not leave yet",
                                          Printable(key)));
    }
    const Entry& e = model_.at(*first);
    if (model_.key(e.key) != key) {
      return Fail(kWhoLeaves, fmt::format("the leaving order has '{}' where {} should be",
                                          Printable(key), Describe(*first)));
    }
    leaves.erase(first);
    const EntryNo parent = model_.ParentOf(e);
    if (parent != kNobody && --children[parent] == 0 && model_.at(parent).leases == 0) {
      leaves.push_back(parent);
    }
  }
  if (!leaves.empty()) Fail(kWhoLeaves, "the leaving order forgets " + Describe(leaves.front()));
}

void Judge::Compare(const Engine& engine) {
  if (verdict_->failed()) return;
  const Store& store = engine.store();
  const auto equal = [&](int invariant, auto actual, auto expected, std::string_view what) {
    if (actual == expected) [[likely]]
      return;
    Fail(invariant, fmt::format("{}: the cache says {}, it should be {}", what, actual, expected));
  };
  const Sums& live = model_.live_sums();
  equal(kValues, store.entries(), live.entries, "live entries (who left without an event?)");
  equal(kAccounting, store.reservations(), model_.reserved_sums().entries, "reservations");
  equal(kLeases, store.zombies(), model_.zombie_sums().entries, "dead generations with leases");
  equal(kAccounting, store.bytes(), model_.bytes(), "bytes accounted");
  equal(kAccounting, store.memory(store.top())->allocated(), model_.bytes(),
        "bytes allocated in the tier");
  equal(kAccounting, store.names_bytes(), model_.names(), "bytes of names");
  equal(kOneOwner, store.slots().in_use(), model_.slots(), "slots in use");
  equal(kAccounting, store.tokens(), live.tokens, "tokens");
  equal(kAccounting, store.tokens_reserved(), model_.reserved_sums().tokens, "tokens reserved");
  if (model_.bytes() > setting_.capacity) {
    Fail(kAccounting,
         fmt::format("{} bytes held, the capacity is {}", model_.bytes(), setting_.capacity));
  }
  if (setting_.options.token_budget && live.tokens > *setting_.options.token_budget) {
    Fail(kAccounting, fmt::format("{} tokens live, the budget is {}", live.tokens,
                                  *setting_.options.token_budget));
  }
  if (engine.level() != pressure_.level()) {
    Fail(kLevelAndRefusal, fmt::format("the level is {}, it should be {}", Name(engine.level()),
                                       Name(pressure_.level())));
  }
  equal(kLevelAndRefusal, engine.is_blocked(), pressure_.level() == Level::kEmergency, "blocked");
  const std::optional<double> pressure = engine.pressure();
  if (pressure.has_value() == pressure_.unknown()) {
    Fail(kLevelAndRefusal,
         fmt::format("pressure is {}known, but should not be", pressure ? "" : "un"));
  } else if (pressure && *pressure != pressure_.Corrected(model_.bytes())) {
    equal(kLevelAndRefusal, *pressure, pressure_.Corrected(model_.bytes()), "pressure");
  }
}

void Judge::CompareAll(const Engine& engine, TimePoint now) {
  if (verdict_->failed()) return;
  now_ = now;
  const Store& store = engine.store();
  const SlotTable& slots = store.slots();
  std::array<std::uint64_t, 4> states{};
  for (std::uint32_t id = 0; id < slots.high_water(); ++id) {
    if (!slots.IsTaken(id)) continue;
    ++states.at(static_cast<std::size_t>(LeaseWord::StateOf(slots.slot(id).word.Load())));
  }
  const auto count = [&](SlotState state) { return states.at(static_cast<std::size_t>(state)); };
  if (count(SlotState::kVisible) != model_.live_sums().entries ||
      count(SlotState::kPrivate) + count(SlotState::kZombie) !=
          model_.reserved_sums().entries + model_.zombie_sums().entries) {
    return Fail(kOneOwner,
                fmt::format("{} slots are visible, {} private, {} zombies; entries are {}, "
                            "reservations {}, zombies {}",
                            count(SlotState::kVisible), count(SlotState::kPrivate),
                            count(SlotState::kZombie), model_.live_sums().entries,
                            model_.reserved_sums().entries, model_.zombie_sums().entries));
  }
  if (const std::string wrong = spillway::testing::WrongCounts(store); !wrong.empty()) {
    return Fail(kAccounting, wrong);
  }
  for (const EntryNo number : model_.live()) {
    const Entry& e = model_.at(number);
    const std::string& key = model_.key(e.key);
    const std::uint32_t id = store.index().Lookup(store.index().HashOf(key), key);
    if (id == kNoSlot) return Fail(kValues, Describe(number) + " cannot be found");
    const Slot& slot = slots.slot(id);
    const Record& record = slots.record(id);
    const std::uint64_t word = slot.word.Load();
    if (slot.size != e.size || Tokens{record.tokens} != e.tokens ||
        record.offloaded != e.offloaded || LeaseWord::AcquiresOf(word) != e.accesses ||
        slot.last_use.load(std::memory_order_relaxed) != e.last_use.time_since_epoch().count()) {
      return Fail(kValues, Describe(number) + ": size, tokens, mark, accesses or last use differ");
    }
    if (LeaseWord::LeasesOf(word) != e.leases) {
      return Fail(kLeases, fmt::format("{}: the slot counts {} leases", Describe(number),
                                       LeaseWord::LeasesOf(word)));
    }
    if (record.children[0] != e.children) {
      return Fail(kWhoLeaves, fmt::format("{}: the record counts {} children", Describe(number),
                                          record.children[0]));
    }
    if (!setting_.has_bytes) continue;
    const Bytes wrong = Value(e.set, e.size).FirstWrong(slot.data);
    if (wrong != e.size) {
      return Fail(kValues,
                  fmt::format("byte {} of {} is not what was set", wrong, Describe(number)));
    }
  }
}

}  // namespace spillway::sim
