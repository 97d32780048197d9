// Making room for a set: bytes, tokens, names and slots. Planned before it is
// done, so that a set that can't be helped costs nobody anything.
#include <algorithm>

#include <fmt/format.h>

#include "base/mutant.h"
#include "base/printable.h"
#include "cache/engine.h"

namespace spillway {

// What is lacking. A victim takes its share off each.
struct Engine::Need {
  Bytes bytes = 0;
  Tokens tokens = 0;
  Bytes names = 0;
  std::uint64_t slots = 0;

  bool any() const { return bytes > 0 || tokens > 0 || names > 0 || slots > 0; }
  Reason reason() const {
    return bytes == 0 && names == 0 && slots == 0 ? Reason::kBudget : Reason::kRoom;
  }
  bool HelpedBy(Bytes b, Tokens t, Bytes n) const {
    return (bytes > 0 && b > 0) || (tokens > 0 && t > 0) || (names > 0 && n > 0) || slots > 0;
  }
  void Less(Bytes b, Tokens t, Bytes n) {
    bytes -= std::min(bytes, b);
    tokens -= std::min(tokens, t);
    names -= std::min(names, n);
    slots -= std::min<std::uint64_t>(slots, 1);
  }
};

namespace {

template <typename T>
T Excess(T have, T limit) {
  return have > limit ? have - limit : 0;
}

Bytes NamesOf(const Store& store, std::uint32_t slot) {
  const Slot& where = store.slots().slot(slot);
  const Extra* extra = store.slots().record(slot).extra;
  Bytes bytes = where.key_bytes() > kInlineKeyBytes ? where.key_bytes() : 0;
  if (extra != nullptr) bytes += sizeof(Extra) + extra->agent.size() + extra->meta.size();
  return bytes;
}

}  // namespace

// While pressure is UNKNOWN the tier does not grow beyond what it held.
Bytes Engine::GrowthLimit() const {
  const Bytes limit = capacity();
  if (!gauge_.unknown() || limit == Tier::kUnlimited) return limit;
  if (MutantOn(Mutant::kUnknownGrows)) return limit;
  return std::min(limit, unknown_ceiling_);
}

Status Engine::MakeRoom(const NewEntry& entry, std::uint32_t old, TimePoint now) {
  const Options& options = settings_.options;
  const EntryId old_id = old == kNoSlot ? EntryId{} : store_->IdOf(old);
  if (options.token_budget && entry.options.tokens > *options.token_budget) {
    return Error{Code::kOverBudget,
                 fmt::format("set '{}': {} tokens are more than the whole token budget of {}",
                             Printable(entry.key), entry.options.tokens, *options.token_budget)};
  }
  // Somebody may lease a victim between plan and deed; then plan again.
  for (int attempt = 0; attempt < 8; ++attempt) {
    const bool old_live = old != kNoSlot && store_->IsLive(old_id);
    Need need;
    if (!MutantOn(Mutant::kCapacityIgnored)) {
      need.bytes = Excess(store_->bytes() + entry.bytes, GrowthLimit());
    }
    if (options.token_budget) {
      const Tokens replaced = old_live ? Tokens{store_->slots().record(old).tokens} : 0;
      const Tokens reserved =
          MutantOn(Mutant::kBudgetForgetsReserved) ? 0 : store_->tokens_reserved();
      const Tokens after = store_->tokens() + reserved + entry.options.tokens - replaced;
      need.tokens = Excess(after, *options.token_budget);
    }
    need.names =
        Excess(store_->names_bytes() + Store::NamesBytesOf(entry), options.names_bytes_max);
    need.slots = Excess<std::uint64_t>(std::uint64_t{store_->slots().in_use()} + 1,
                                       store_->slots().capacity());
    if (!need.any()) return {};

    const Need lacking = need;
    std::vector<Victim>& plan = room_plan_;
    plan.clear();
    if (!PlanRoom(&need, old_live ? old : kNoSlot, &plan)) {
      Unplan(&plan);
      if (lacking.reason() == Reason::kBudget) {
        return Error{
            Code::kOverBudget,
            fmt::format("set '{}': {} tokens over the token budget of {}, and nothing more "
                        "may leave",
                        Printable(entry.key), need.tokens, *options.token_budget)};
      }
      return Error{Code::kBlocked,
                   fmt::format("set '{}': the {} tier is full ({} of {} bytes{}) and nothing more "
                               "may leave",
                               Printable(entry.key), store_->tier()->name(), store_->bytes(),
                               GrowthLimit(), gauge_.unknown() ? ", pressure unknown" : "")};
    }
    for (const Victim& victim : plan) {
      store_->Attach(victim.id.slot);
      const bool leaf = store_->slots().record(victim.id.slot).children == 0 ||
                        victim.reason == Reason::kReplaced || MutantOn(Mutant::kParentBeforeChild);
      const Why why{Action::kDestroy, victim.reason,
                    victim.reason == Reason::kReplaced ? std::string_view() : OrderName()};
      if (!leaf || !RemoveUnlessLeased(victim.id.slot, why, now)) Enter(victim.id.slot);
    }
  }
  return Error{Code::kBlocked, fmt::format("set '{}': everything that could leave is being read",
                                           Printable(entry.key))};
}

// The old generation of the key goes first, since it goes anyway; then as the
// order says, until nothing is lacking.
bool Engine::PlanRoom(Need* need, std::uint32_t old, std::vector<Victim>* plan) {
  const auto take = [&](std::uint32_t slot, Tokens tokens, Reason reason) {
    plan->push_back({store_->IdOf(slot), reason});
    need->Less(store_->slots().slot(slot).size, tokens, NamesOf(*store_, slot));
    const std::uint32_t parent = store_->Detach(slot);
    if (parent != kNoSlot && store_->slots().record(parent).children == 0) Enter(parent);
  };
  bool old_planned = false;
  if (old != kNoSlot && (need->bytes > 0 || need->names > 0 || need->slots > 0) &&
      store_->Leases(old) == 0) {
    take(old, 0, Reason::kReplaced);  // Its tokens are off the count already.
    old_planned = true;
  }
  bool one_more = MutantOn(Mutant::kRoomTakesTooMuch);
  while (need->any() || std::exchange(one_more, false)) {
    const std::optional<EntryId> next = policy_.order->Next(level());
    if (!next) break;
    const std::uint32_t slot = next->slot;
    const Tokens tokens = slot == old ? 0 : Tokens{store_->slots().record(slot).tokens};
    // One that helps nobody by itself still stands before its parent, who may;
    // not so before the old generation, which goes in any case.
    const std::uint32_t parent = store_->ParentOf(slot);
    const bool useful =
        need->HelpedBy(store_->slots().slot(slot).size, tokens, NamesOf(*store_, slot)) ||
        (parent != kNoSlot && !(old_planned && parent == old)) || !need->any();
    if ((slot == old && old_planned) || store_->Leases(slot) > 0 || !useful) {
      put_back_.push_back(*next);
      continue;
    }
    take(slot, tokens, need->reason());
  }
  for (EntryId id : put_back_) Enter(id.slot);
  put_back_.clear();
  return !need->any();
}

void Engine::Unplan(std::vector<Victim>* plan) {
  while (!plan->empty()) {
    const std::uint32_t slot = plan->back().id.slot;
    store_->Attach(slot);
    Enter(slot);
    plan->pop_back();
  }
}

// On a shared card what is free beyond the reserve is ours to grow into. Past
// that, something of ours makes room; if nothing can, the reserve is used:
// refusing is EMERGENCY's to do.
void Engine::KeepReserve(const NewEntry& entry, TimePoint now) {
  if (settings_.reserve == 0 || gauge_.unknown() || gauge_.total() == 0) return;
  if (MutantOn(Mutant::kReserveIgnored)) return;
  const Bytes free = gauge_.Free(store_->bytes());
  Need need;
  need.bytes = std::min(entry.bytes, Excess(gauge_.Raised(settings_.reserve) + entry.bytes, free));
  if (!need.any()) return;
  std::vector<Victim> plan;
  if (!PlanRoom(&need, kNoSlot, &plan)) {
    Unplan(&plan);
    return;
  }
  for (const Victim& victim : plan) {
    store_->Attach(victim.id.slot);
    const Why why{Action::kDestroy, Reason::kReserve, OrderName()};
    if (store_->slots().record(victim.id.slot).children > 0 ||
        !RemoveUnlessLeased(victim.id.slot, why, now)) {
      Enter(victim.id.slot);
    }
  }
}

}  // namespace spillway
