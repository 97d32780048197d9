// Setting a key anew in place. Most sets of a key that is there change its bytes
// and nothing else: then no room has to be found, no slot and no block, and the
// index stays as it is. To everybody else it is a set like any other: a new
// generation, an event for the old one.
#include "base/mutant.h"
#include "cache/engine.h"
#include "cache/use_log.h"
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

// Whether the tier holds no more than it may without this set, and the reserve is
// left alone. `early`: there is no room for both generations, so that the old one
// would leave before the new one is there.
bool Engine::FitsInPlace(const NewEntry& entry, bool* early) const {
  const Options& options = settings_.options;
  const Bytes limit = GrowthLimit(*top_);
  const std::uint64_t slots = store_->slots().in_use();
  if (store_->bytes() > limit || store_->names_bytes() > options.names_bytes_max) return false;
  if (options.token_budget &&
      store_->tokens() + store_->tokens_reserved() > *options.token_budget) {
    return false;
  }
  if (const Bytes left_free = LeftFree(*top_); left_free > 0) {
    if (Excess(left_free + entry.bytes, FreeMemory(*top_)) > 0) return false;
  }
  *early = store_->bytes() + entry.bytes > limit ||
           store_->names_bytes() + Store::NamesBytesOf(entry) > options.names_bytes_max ||
           slots + 1 > store_->slots().capacity();
  return true;
}

bool Engine::Rewrite(const NewEntry& entry, const Source& source, TimePoint now) {
  // Only where what stands on the top tier stands nowhere else, and nobody has to
  // be told of it but the rankings.
  if (!single() || graph_ != nullptr || store_->disk() != nullptr || parked_ != nullptr) {
    return false;
  }
  if (scores_ != nullptr && !Advice(entry.options).empty()) return false;  // Its word is heard.
  if (entry.place == Place::kDevice || !store_->memory(store_->top())->is_plain_memory())
    return false;
  CheckSampleAge(*top_, now);
  if (is_blocked() || MutantOn(Mutant::kServesOldGeneration)) return false;
  const std::uint32_t id = store_->index().Lookup(entry.hash, entry.key);
  bool early = false;
  if (id == kNoSlot || !MayRewrite(entry, id) || !FitsInPlace(entry, &early)) return false;
  const std::uint64_t leases = store_->Leases(id);
  if (leases > 0 && !MutantOn(Mutant::kRewritesLeased)) return false;
  const EntryId old = store_->IdOf(id);
  const std::uint64_t generation = store_->slots().record(id).generation;
  Line& line = top_->LineOf(store_->slots().record(id));
  const Facts before = store_->FactsOf(id, top_->id);
  if (scores_ != nullptr) HearUses(now);
  line.Left(old);  // Rankings know it by its generation.
  const bool renewed =
      store_->Renew(id, leases, early, now, [&](std::byte* block) { GatherToHost(block, source); });
  if (renewed) {
    LogAs(id, generation, top_->id, {Action::kDestroy, Reason::kReplaced, {}}, now);
    ++sets_;
    if (uses_ != nullptr) NoteSet(id);
    NoteMoves(now);
    if (scores_ != nullptr) Renewed(old, before, id, now);
  }
  line.Enter(store_->IdOf(id));
  if (renewed && top_->firm->policy.rule->RunsAfterSet(level())) {
    while (Relieve(top_->id, now, {}) == Progress::kMore) {
    }
  }
  return renewed;
}

}  // namespace spillway
