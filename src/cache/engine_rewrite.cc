// Setting a key anew in place. Most sets of a key that is there change its bytes
// and nothing else: then no room has to be found, no slot and no block, and the
// index stays as it is. To everybody else it is a set like any other: a new
// generation, an event for the old one.
#include "base/mutant.h"
#include "cache/engine.h"
#include "device/host_copy.h"

namespace spillway {

bool Engine::MayRewrite(const NewEntry& entry, std::uint32_t id) const {
  const Slot& slot = store_->slots().slot(id);
  const Record& record = store_->slots().record(id);
  const SetOptions& options = entry.options;
  const bool says_the_same = slot.size == entry.bytes && Tokens{record.tokens} == options.tokens &&
                             slot.no_idle_ttl != options.idle_ttl;
  const bool is_plain = !slot.has_deadline && record.extra == nullptr && record.below == nullptr &&
                        !record.parent_declared() && !record.has_children() && !record.offloaded;
  const bool stays_plain =
      !options.ttl && options.agent.empty() && options.meta.empty() && options.parent.empty();
  return says_the_same && is_plain && stays_plain;
}

bool Engine::Rewrite(const NewEntry& entry, const Source& source, TimePoint now) {
  // Only where what stands on the top tier stands nowhere else, and nobody has to
  // be told of it but the rankings.
  if (!single() || graph_ != nullptr || store_->disk() != nullptr || parked_ != nullptr) {
    return false;
  }
  if (entry.place == Place::kDevice || !store_->memory(store_->top())->host_readable()) return false;
  CheckSampleAge(*top_, now);
  if (is_blocked() || MutantOn(Mutant::kServesOldGeneration)) return false;
  const std::uint32_t id = store_->index().Lookup(entry.hash, entry.key);
  if (id == kNoSlot || !MayRewrite(entry, id)) return false;
  if (store_->Leases(id) > 0) return false;
  const EntryId old = store_->IdOf(id);
  const std::uint64_t generation = store_->slots().record(id).generation;
  Line& line = top_->LineOf(store_->slots().record(id));
  line.Left(old);  // Rankings know it by its generation.
  const bool renewed =
      store_->Renew(id, now, [&](std::byte* block) { GatherToHost(block, source); });
  if (renewed) {
    LogAs(id, generation, top_->id, {Action::kDestroy, Reason::kReplaced, {}}, now);
    ++sets_;
    NoteMoves(now);
  }
  line.Enter(store_->IdOf(id));
  if (renewed && top_->firm->policy.rule->RunsAfterSet(level())) {
    while (Relieve(top_->id, now, {}) == Progress::kMore) {
    }
  }
  return renewed;
}

}  // namespace spillway
