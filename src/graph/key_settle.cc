// SPDX-License-Identifier: Apache-2.0
// Brings agents and keys up to date with their steps, and lists the keys that changed.
#include <algorithm>
#include <cmath>

#include "graph/key_table.h"

namespace spillway {
namespace {

// Advice with less confidence is ignored: that is six times overdue.
constexpr double kConfLeast = 1.0 / 64;
// Assumed duration of a step, to compare advice in time with distances in steps.
constexpr Duration kStep = std::chrono::seconds(10);
// Advice given for "now" stays valid for a second or two.
constexpr Duration kAdviceLeast = std::chrono::seconds(1);

Want FromAdvice(const AdvisedUse& advice, TimePoint now) {
  if (!(advice.p > 0)) return {};
  const Duration elapsed = std::max(now - advice.given, Duration::zero());
  const double overdue = static_cast<double>(elapsed.count()) /
                         static_cast<double>(std::max(advice.eta, kAdviceLeast).count());
  Want want;
  want.conf = std::min(1.0, std::exp2(1 - overdue));
  if (want.conf < kConfLeast) return {};
  const Duration left = std::max(advice.eta - elapsed, Duration::zero());
  want.start = left.count();
  want.rank = 1 + static_cast<std::int32_t>(std::min<std::int64_t>(left / kStep, 1'000'000'000));
  want.p = advice.p;
  want.weight = 1;
  return want;
}

// Whether the key is needed as predicted when it was last reported. If only time has passed as
// predicted, that is no change.
bool AsPredicted(const KeyRecord& key, const Want& want, TimePoint now) {
  Want same = key.told;
  same.start = want.start;
  same.conf = want.conf;
  if (same != want || std::abs(key.told.conf - want.conf) > 1.0 / 16) return false;
  if (!want.wanted()) return true;
  constexpr std::int64_t kSlackNs = 50'000'000;
  const std::int64_t foreseen =
      std::max<std::int64_t>(key.told.start - (now - key.told_at).count(), 0);
  return std::abs(want.start - foreseen) <= std::max(foreseen / 8, kSlackNs);
}

}  // namespace

void KeyTable::DirtyAdvice() {
  if (advised_ == 0) return;
  for (AgentIndex at = 0; at < agents_.size(); ++at) {
    if (agents_[at].advice) Dirty(at);
  }
}

Want KeyTable::WantOf(AgentIndex at, const StepReader& reader, TimePoint now) const {
  const AgentRecord& agent = agents_[at];
  if (agent.advice) return FromAdvice(*agent.advice, now);
  Want want;
  for (const StepRef& step : agent.steps) want.Merge(reader.Read(step));
  return want;
}

void KeyTable::SettleAgents(const StepReader& reader, TimePoint now) {
  std::vector<KeyIndex> over;
  for (const AgentIndex at : dirty_agents_) {
    AgentRecord& agent = agents_[at];
    agent.dirty = false;
    const Want want = WantOf(at, reader, now);
    if (want == agent.want) continue;
    agent.want = want;
    if (agent.advice) {
      DirtyUpwards(agent.advised_key);
      if (agent.advice->p > 0 && !want.wanted()) over.push_back(agent.advised_key);
    }
    for (const BindingIndex binding : agent.bindings) {
      if (bindings_[binding].active) DirtyUpwards(bindings_[binding].key);
    }
  }
  dirty_agents_.clear();
  for (const KeyIndex at : over) DropAdvice(at);
}

void KeyTable::Settle(const StepReader& reader, TimePoint now, std::uint64_t* version) {
  SettleAgents(reader, now);
  const std::uint64_t next = *version + 1;
  for (const KeyIndex at : dirty_keys_) {
    keys_[at].dirty = keys_[at].walked = false;
    if (keys_[at].name.empty() || !SettleKey(at, now)) continue;
    *version = next;
    keys_[at].changed_at = next;
    Unlist(at);
    ListNewest(at);
  }
  dirty_keys_.clear();
}

// Computes a key's Want. True: it differs from the one last reported.
bool KeyTable::SettleKey(KeyIndex at, TimePoint now) {
  KeyRecord& key = keys_[at];
  Want want;
  for (const auto& [agent, count] : key.wanters) want.Merge(agents_[agent].want);
  if (want.steps != kNeverSteps) key.was_bound = true;  // A step uses a key that its agent owns.
  const bool unwanted = key.advised_by != kNoIndex && !(agents_[key.advised_by].advice->p > 0);
  const bool known = key.was_bound || !key.wanters.empty();
  const bool retired = !want.wanted() && (key.was_bound || unwanted);
  key.want = want;
  if (known == key.known && retired == key.retired && AsPredicted(key, want, now)) return false;
  key.known = known;
  key.retired = retired;
  key.told = want;
  key.told_at = now;
  return true;
}

const KeyRecord* KeyTable::Find(std::string_view name) const {
  const auto found = key_names_.find(name);
  return found == key_names_.end() ? nullptr : &keys_[found->second];
}

std::vector<KeyIndex> KeyTable::ChangedSince(std::uint64_t version) const {
  std::vector<KeyIndex> changed;
  for (KeyIndex at = newest_; at != kNoIndex && keys_[at].changed_at > version;
       at = keys_[at].older) {
    changed.push_back(at);
  }
  std::ranges::reverse(changed);
  return changed;
}

void KeyTable::Unlist(KeyIndex at) {
  KeyRecord& key = keys_[at];
  (key.newer == kNoIndex ? newest_ : keys_[key.newer].older) = key.older;
  (key.older == kNoIndex ? oldest_ : keys_[key.older].newer) = key.newer;
  key.newer = key.older = kNoIndex;
}

void KeyTable::ListOldest(KeyIndex at) {
  KeyRecord& key = keys_[at];
  key.newer = oldest_;
  key.older = kNoIndex;
  (oldest_ == kNoIndex ? newest_ : keys_[oldest_].older) = at;
  oldest_ = at;
}

void KeyTable::ListNewest(KeyIndex at) {
  KeyRecord& key = keys_[at];
  key.older = newest_;
  key.newer = kNoIndex;
  (newest_ == kNoIndex ? oldest_ : keys_[newest_].newer) = at;
  newest_ = at;
}

}  // namespace spillway
