// Answers for people: where an entry is, why it left, who would leave next.
#include <algorithm>
#include <unordered_map>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "base/printable.h"
#include "cache/engine.h"

namespace spillway {

namespace {

double Seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

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
  const std::string name = Printable(key);
  const std::uint32_t slot = store_->index().Lookup(hash, key);
  if (slot != kNoSlot) {
    const Facts facts = store_->FactsOf(slot);
    const Record& record = store_->slots().record(slot);
    std::string out = fmt::format(
        "'{}' is in the {} tier{}: {} bytes, {} tokens, generation {}, read {} times, idle {:.1f} "
        "s, "
        "{} leases, {} entries continue it.\n",
        name, store_->tier()->name(), record.offloaded ? " (marked offloaded)" : "", facts.bytes,
        facts.tokens, record.generation, facts.access_count - 1, Seconds(now - facts.last_use),
        store_->Leases(slot), facts.children);
    if (store_->Leases(slot) > 0) {
      out += "It can't leave while it is leased.";
    } else if (facts.children > 0) {
      out += "It leaves only after the entries that continue it.";
    } else {
      out += fmt::format("It may leave: level {}, policy {}, order {}.", Name(level()),
                         policy_.name, OrderName());
    }
    return out;
  }
  const std::optional<Journal::Trace> trace = journal_.Find(hash);
  if (!trace) {
    return fmt::format(
        "'{}' is not here: never set, or longer ago than the last {} departures.\n"
        "A set would bring it in.",
        name, Journal::kTraces);
  }
  return fmt::format(
      "'{}' left the {} tier {:.1f} s ago: {} ({}), because {}; level {}, pressure {:.3f}, policy "
      "{}. "
      "It had {} bytes and {} tokens, generation {}.\n"
      "No lower tier keeps a copy: only a set brings it back.",
      name, store_->tier()->name(), Seconds(now - trace->at), Name(trace->action),
      Name(trace->reason), Meaning(trace->reason), Name(trace->level), trace->pressure,
      policy_.name, trace->bytes, trace->tokens, trace->generation);
}

std::vector<std::string> Engine::LeavingOrder() const {
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
    const Facts facts = store_->FactsOf(slot);
    heap.push_back({policy_.order->KeyFor(level(), facts), facts.place, slot});
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  for (std::uint32_t slot = 0; slot < store_->slots().high_water(); ++slot) {
    const auto word = store_->slots().slot(slot).word.Load();
    if (LeaseWord::StateOf(word) != SlotState::kVisible) continue;
    const std::uint32_t count = store_->slots().record(slot).children;
    if (count > 0) children[slot] = count;
    consider(slot, count);
  }
  std::vector<std::string> out;
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const std::uint32_t slot = heap.back().slot;
    heap.pop_back();
    out.emplace_back(store_->slots().slot(slot).key());
    const std::uint32_t parent = store_->ParentOf(slot);
    if (parent != kNoSlot) consider(parent, --children[parent]);
  }
  return out;
}

}  // namespace spillway
