// SPDX-License-Identifier: Apache-2.0
// Answers for people: where an entry is, why it was evicted, and the eviction order.
#include <algorithm>
#include <unordered_map>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "base/printable.h"
#include "base/times.h"
#include "cache/engine.h"
#include "cache/explain_words.h"

namespace spillway {

namespace {

std::string_view Meaning(Reason reason) {
  switch (reason) {
    case Reason::kExpired:
      return "its time was over";
    case Reason::kIdle:
      return "it had been idle longer than the level allows";
    case Reason::kHeavy:
      return "it had the most tokens for the least use";
    case Reason::kOrder:
      return "it came first in the policy's order";
    case Reason::kRoom:
      return "its place was needed for a set";
    case Reason::kBudget:
      return "its tokens were needed for a set";
    case Reason::kReserve:
      return "free memory had fallen under the reserve";
    case Reason::kAsk:
      return "a neighbour asked for memory";
    case Reason::kErased:
      return "it was erased";
    case Reason::kReplaced:
      return "its key was set again";
    case Reason::kCleared:
      return "the cache was cleared";
    case Reason::kCorrupt:
      return "its bytes were damaged";
    case Reason::kLost:
      return "its device or file was lost";
  }
  return "";
}

}  // namespace

std::string Engine::Explain(std::uint64_t hash, std::string_view key, TimePoint now) const {
  std::string text = ExplainNow(hash, key, now);
  if (store_->disk() == nullptr) return text;
  const std::uint64_t deletes_pending = store_->disk()->stats().deletes_pending;
  if (deletes_pending == 0) return text;
  return text +
         fmt::format(
             "\nDeletes could not be written to disk yet for {} values that were set again or "
             "erased: after a restart an older one may be found ({}).",
             deletes_pending, store_->disk()->pending_why());
}

std::string Engine::ExplainNow(std::uint64_t hash, std::string_view key, TimePoint now) const {
  const std::uint32_t slot = store_->index().Lookup(hash, key);
  constexpr std::size_t kMoves = 8;
  const std::vector<TransferLog::Trace> traces = log_.Find(hash, kMoves);
  if (slot != kNoSlot) return ExplainLive(slot, traces, now);
  if (traces.empty()) {
    return fmt::format("{} the last {} evictions and removals.\n{}", NeverHeardOf(key),
                       TransferLog::kTraces,
                       loading_ ? "The disk tier is still being read in: it may still be found."
                                : "A set would bring it in.");
  }
  const TransferLog::Trace& last = traces.front();
  return fmt::format(
             "'{}' was removed from the {} tier {:.1f} s ago: {} ({}), because {}; level {}, "
             "pressure {:.3f}, "
             "policy {}. It had {} bytes and {} tokens, generation {}.\n"
             "No lower tier keeps a copy: only a set brings it back.",
             Printable(key), Name(last.tier), InSeconds(now - last.at), Name(last.action),
             Name(last.reason), Meaning(last.reason), Name(last.level), last.pressure,
             top_->dirty->policy.name, last.bytes, last.tokens, last.generation) +
         History(traces, last.generation, 1, now);
}

// What happened to this generation before, oldest first.
std::string Engine::History(const std::vector<TransferLog::Trace>& traces, std::uint64_t generation,
                            std::size_t skip, TimePoint now) {
  std::string out;
  for (std::size_t i = traces.size(); i-- > skip;) {
    const TransferLog::Trace& trace = traces[i];
    if (trace.generation != generation) continue;
    out += fmt::format("\n{:.1f} s ago: {} from the {} tier ({}), level {}, pressure {:.3f}.",
                       InSeconds(now - trace.at), Name(trace.action), Name(trace.tier),
                       Name(trace.reason), Name(trace.level), trace.pressure);
  }
  return out;
}

std::string Engine::ExplainLive(std::uint32_t slot, const std::vector<TransferLog::Trace>& traces,
                                TimePoint now) const {
  const Record& record = store_->slots().record(slot);
  const Facts facts = store_->FactsOf(slot, store_->top());
  std::string where;
  TierId uppermost = TierId::kDisk;
  for (std::size_t i = kTiers; i-- > 0;) {
    if (!Has(record.copies, kTierIds[i])) continue;
    uppermost = kTierIds[i];
    where = fmt::format("{}{}{}", store_->name(kTierIds[i]), where.empty() ? "" : " and ", where);
  }
  std::string out = fmt::format(
      "'{}' is in the {} tier{}: {} bytes, {} tokens, generation {}, read {} times, idle {:.1f} "
      "s, {} leases, {} entries continue it.\n",
      Printable(store_->slots().slot(slot).key()), where,
      record.offloaded ? " (marked offloaded)" : "", facts.bytes, facts.tokens, record.generation,
      facts.access_count - 1, InSeconds(now - facts.last_use), store_->Leases(slot),
      *std::max_element(record.children.begin(), record.children.end()));
  const TierState& tier = state(uppermost);
  if (record.below != nullptr && record.below->transfer != nullptr) {
    const Transfer& transfer = *record.below->transfer;
    out += transfer.from == transfer.to
               ? std::string("It is being verified on disk.")
               : fmt::format("It is being copied from the {} to the {} tier.", Name(transfer.from),
                             Name(transfer.to));
  } else if (store_->Leases(slot) > 0) {
    out += "It can't be evicted while it is leased.";
  } else if (record.children[IndexOf(uppermost)] > 0) {
    out += "It is evicted only after the entries that continue it.";
  } else {
    out += fmt::format("It may be evicted: level {}, policy {}, order {}.", Name(level(uppermost)),
                       tier.dirty->policy.name, OrderName(tier));
  }
  if (tier.no_room_below) {
    out += fmt::format(" The level of the {} tier stands: no room below.", Name(uppermost));
  }
  if (uppermost == TierId::kDisk) out += " A get brings it up.";
  out += ExplainWorth(slot, uppermost, now);
  return out + History(traces, record.generation, 0, now);
}

void Engine::NoteArrival(const Transfer& transfer, TimePoint now) {
  const std::uint32_t slot = transfer.id.slot;
  log_.Came({store_->slots().slot(slot).hash.load(std::memory_order_relaxed), now,
             store_->slots().record(slot).generation, transfer.bytes, transfer.from, transfer.to});
}

std::vector<Cache::InFlight> Engine::InFlight(std::size_t most) const {
  std::vector<Cache::InFlight> all;
  for (const Transfer* transfer : transfers_) {
    if (all.size() == most) break;
    if (transfer->from == transfer->to) continue;  // It is only being verified.
    all.push_back({std::string(store_->slots().slot(transfer->id.slot).key()), Name(transfer->from),
                   Name(transfer->to), transfer->bytes});
  }
  return all;
}

std::vector<std::string> Engine::EvictionOrder() const {
  std::vector<std::string> out;
  for (const std::uint32_t slot : EvictionSlots())
    out.emplace_back(store_->slots().slot(slot).key());
  return out;
}

// The order in which the top tier would be emptied now: repeatedly the first leaf by
// the order in force, each eviction making a leaf of its parent when it was the last
// child. Leased entries are left out.
std::vector<std::uint32_t> Engine::EvictionSlots() const {
  if (next_uses_.in_force) return PredictedOrder();
  struct Candidate {
    std::int64_t key;
    std::uint64_t place;
    std::uint32_t slot;
    bool operator>(const Candidate& other) const {
      return key != other.key ? key > other.key : place > other.place;
    }
  };
  std::unordered_map<std::uint32_t, std::uint32_t> children;
  std::vector<Candidate> heap;
  const auto consider = [&](std::uint32_t slot, std::uint32_t left) {
    if (left > 0 || store_->Leases(slot) > 0) return;
    const Facts facts = store_->FactsOf(slot, store_->top());
    const std::int64_t key = top_->dirty->policy.order->KeyOf(level(), store_->IdOf(slot), facts);
    heap.push_back({key, facts.place, slot});
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  for (std::uint32_t slot = 0; slot < store_->slots().high_water(); ++slot) {
    const auto word = store_->slots().slot(slot).word.Load();
    if (LeaseWord::StateOf(word) != SlotState::kVisible) continue;
    if (!Has(store_->slots().record(slot).copies, store_->top())) continue;
    const std::uint32_t count = store_->slots().record(slot).children[IndexOf(store_->top())];
    if (count > 0) children[slot] = count;
    consider(slot, count);
  }
  std::vector<std::uint32_t> out;
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const std::uint32_t slot = heap.back().slot;
    heap.pop_back();
    out.push_back(slot);
    const std::uint32_t parent = store_->ParentOf(slot);
    if (parent != kNoSlot && Has(store_->slots().record(parent).copies, store_->top())) {
      consider(parent, --children[parent]);
    }
  }
  return out;
}

}  // namespace spillway
