// SPDX-License-Identifier: Apache-2.0
#include "graph/key_table.h"

#include <algorithm>
#include <cassert>

namespace spillway {
namespace {

std::uint64_t BindingName(AgentIndex agent, KeyIndex key) {
  return std::uint64_t{agent} << 32 | key;
}

std::string AgentName(std::string_view client, std::string_view name) {
  std::string joined = std::to_string(client.size());
  joined += ':';
  joined += client;
  joined += name;
  return joined;
}

}  // namespace

// --- agents ---

AgentIndex KeyTable::NewAgent() {
  if (free_agents_.empty()) {
    agents_.emplace_back();
    return static_cast<AgentIndex>(agents_.size() - 1);
  }
  const AgentIndex at = free_agents_.back();
  free_agents_.pop_back();
  const bool dirty = agents_[at].dirty;  // The old index may still be in dirty_agents_.
  agents_[at] = AgentRecord();
  agents_[at].dirty = dirty;
  return at;
}

AgentIndex KeyTable::AgentFor(std::string_view client, std::string_view name) {
  if (const auto found = FindAgent(client, name)) return *found;
  const AgentIndex at = NewAgent();
  agents_[at].client = client;
  agents_[at].name = name;
  agent_names_.emplace(AgentName(client, name), at);
  return at;
}

std::optional<AgentIndex> KeyTable::FindAgent(std::string_view client,
                                              std::string_view name) const {
  const auto found = agent_names_.find(AgentName(client, name));
  if (found == agent_names_.end()) return std::nullopt;
  return found->second;
}

void KeyTable::AddStep(AgentIndex agent, StepRef step) {
  agents_[agent].steps.push_back(step);
  agents_[agent].standing = false;
  Dirty(agent);
}

void KeyTable::DropSteps(std::span<const AgentIndex> agents, RunSlot run) {
  for (const AgentIndex at : agents) {
    std::erase_if(agents_[at].steps, [run](const StepRef& step) { return step.run == run; });
    agents_[at].standing = agents_[at].steps.empty();
    Dirty(at);
    DropAgentIfIdle(at);
  }
}

void KeyTable::DropAgentIfIdle(AgentIndex agent) {
  AgentRecord& record = agents_[agent];
  if (!record.steps.empty() || !record.bindings.empty()) return;
  if (!record.advice && agent_names_.erase(AgentName(record.client, record.name)) == 0) return;
  record.name.clear();
  record.advice.reset();
  record.want = Want();
  free_agents_.push_back(agent);
}

void KeyTable::Dirty(AgentIndex agent) {
  if (agents_[agent].dirty) return;
  agents_[agent].dirty = true;
  dirty_agents_.push_back(agent);
}

std::vector<AgentIndex> KeyTable::AgentsOf(std::string_view client) const {
  std::vector<AgentIndex> found;
  for (AgentIndex at = 0; at < agents_.size(); ++at) {
    if (!agents_[at].steps.empty() && agents_[at].client == client) found.push_back(at);
  }
  return found;
}

// --- bindings ---

std::optional<KeyTable::Bound> KeyTable::Bind(AgentIndex agent, std::string_view key, KeyKind kind,
                                              RunSlot run) {
  const KeyIndex key_at = KeyFor(key);
  if (key_at == kNoIndex) {
    DropAgentIfIdle(agent);
    return std::nullopt;
  }
  const auto [found, is_new] = binding_of_.try_emplace(BindingName(agent, key_at), 0);
  if (is_new) {
    if (free_bindings_.empty()) {
      free_bindings_.push_back(static_cast<BindingIndex>(bindings_.size()));
      bindings_.emplace_back();
    }
    found->second = free_bindings_.back();
    free_bindings_.pop_back();
    std::vector<BindingIndex>& all = agents_[agent].bindings;
    bindings_[found->second] = {.agent = agent, .key = key_at, .holders = {}};
    bindings_[found->second].place = static_cast<std::uint32_t>(all.size());
    all.push_back(found->second);
  }
  Binding& binding = bindings_[found->second];
  if (binding.kind != kind) {
    Activate(&binding, false);
    binding.kind = kind;
  }
  const bool held = std::ranges::find(binding.holders, run) != binding.holders.end();
  if (!held) binding.holders.push_back(run);
  Activate(&binding, true);
  return Bound{found->second, !held};
}

void KeyTable::Activate(Binding* binding, bool active) {
  if (binding->active == active) return;
  binding->active = active;
  if (active) {
    AddWanter(binding->key, binding->agent);
  } else {
    RemoveWanter(binding->key, binding->agent);
  }
  if (binding->kind == KeyKind::kVolatile)
    agents_[binding->agent].volatile_keys += active ? 1U : -1U;
}

void KeyTable::Release(BindingIndex at, RunSlot run) {
  std::erase(bindings_[at].holders, run);
  if (bindings_[at].holders.empty()) RemoveBinding(at);
}

bool KeyTable::Own(std::string_view client, std::string_view name, std::string_view key) {
  const bool known = FindAgent(client, name).has_value();
  const AgentIndex agent = AgentFor(client, name);
  if (!known) agents_[agent].standing = true;
  KeyKind kind = KeyKind::kHistory;
  if (const auto found = key_names_.find(key); found != key_names_.end()) {
    const auto bound = binding_of_.find(BindingName(agent, found->second));
    if (bound != binding_of_.end()) kind = bindings_[bound->second].kind;
  }
  return Bind(agent, key, kind, kNoRun).has_value();
}

void KeyTable::Disown(std::string_view client, std::string_view name, std::string_view key) {
  const std::optional<AgentIndex> agent = FindAgent(client, name);
  const auto found = key_names_.find(key);
  if (!agent || found == key_names_.end()) return;
  const auto bound = binding_of_.find(BindingName(*agent, found->second));
  if (bound != binding_of_.end()) Release(bound->second, kNoRun);
}

void KeyTable::RemoveBinding(BindingIndex at) {
  Binding& binding = bindings_[at];
  Activate(&binding, false);
  const AgentIndex agent = binding.agent;
  std::vector<BindingIndex>& all = agents_[agent].bindings;
  all[binding.place] = all.back();
  bindings_[all.back()].place = binding.place;
  all.pop_back();
  binding_of_.erase(BindingName(agent, binding.key));
  free_bindings_.push_back(at);
  DropAgentIfIdle(agent);
}

std::vector<std::string> KeyTable::KeysOf(AgentIndex agent, std::size_t most,
                                          std::size_t* more) const {
  std::vector<std::string> names;
  for (const BindingIndex at : agents_[agent].bindings) {
    if (!bindings_[at].active) continue;
    if (names.size() < most) {
      names.push_back(keys_[bindings_[at].key].name);
    } else {
      ++*more;
    }
  }
  return names;
}

void KeyTable::SpendVolatile(AgentIndex agent) {
  if (agents_[agent].volatile_keys == 0) return;
  for (const BindingIndex at : agents_[agent].bindings) {
    if (bindings_[at].kind == KeyKind::kVolatile) Activate(&bindings_[at], false);
  }
}

// --- keys ---

KeyIndex KeyTable::KeyFor(std::string_view name, KeyIndex kept) {
  const auto found = key_names_.find(name);
  if (found != key_names_.end()) {
    keys_[found->second].forgotten = false;
    return found->second;
  }
  if (key_names_.size() >= keys_max_) MakeRoom(kept);
  if (key_names_.size() >= keys_max_) return kNoIndex;
  if (free_keys_.empty()) {
    free_keys_.push_back(static_cast<KeyIndex>(keys_.size()));
    keys_.emplace_back();
  }
  const KeyIndex at = free_keys_.back();
  free_keys_.pop_back();
  KeyRecord& key = keys_[at];
  const bool dirty = key.dirty;  // The old index may still be in dirty_keys_.
  key = KeyRecord();
  key.dirty = dirty;
  key.name = name;
  key_names_.emplace(key.name, at);
  ListOldest(at);
  return at;
}

// Forgets the least recently changed key that no agent needs, if there is one among the 64 oldest.
void KeyTable::MakeRoom(KeyIndex kept) {
  constexpr int kLooksMax = 64;
  KeyIndex at = oldest_;
  for (int look = 0; look < kLooksMax && at != kNoIndex; ++look) {
    const KeyIndex next = keys_[at].newer;
    if (at != kept && keys_[at].wanters.empty() && keys_[at].first_child == kNoIndex) {
      keys_[at].forgotten = true;
      FreeIfUnused(at);
      return;
    }
    at = next;
  }
}

void KeyTable::Forget(std::string_view name) {
  const auto found = key_names_.find(name);
  if (found == key_names_.end()) return;
  const KeyIndex at = found->second;
  if (keys_[at].advised_by != kNoIndex) DropAdvice(at);
  if (!keys_[at].wanters.empty()) return;
  keys_[at].forgotten = true;
  keys_[at].was_bound = false;
  DirtyUpwards(at);
  KeyIndex up = at;
  while (up != kNoIndex) {
    const KeyIndex parent = keys_[up].parent;
    if (!FreeIfUnused(up)) break;
    up = parent;
  }
}

bool KeyTable::FreeIfUnused(KeyIndex at) {
  KeyRecord& key = keys_[at];
  if (!key.forgotten || !key.wanters.empty() || key.first_child != kNoIndex) return false;
  Orphan(at);
  Unlist(at);
  key_names_.erase(key.name);
  key.name.clear();
  key.known = false;
  free_keys_.push_back(at);
  return true;
}

// Walks up to the first ancestor that already has this wanter.
void KeyTable::AddWanter(KeyIndex from, AgentIndex agent) {
  for (KeyIndex at = from; at != kNoIndex; at = keys_[at].parent) {
    KeyRecord& key = keys_[at];
    const auto place = std::ranges::lower_bound(key.wanters, agent, {}, &KeyRecord::Wanter::agent);
    if (place != key.wanters.end() && place->agent == agent) {
      ++place->count;
      return;
    }
    key.wanters.insert(place, {agent, 1});
    key.was_bound = key.was_bound || !(agents_[agent].advice || agents_[agent].standing);
    DirtyKey(at);
  }
}

void KeyTable::RemoveWanter(KeyIndex from, AgentIndex agent) {
  for (KeyIndex at = from; at != kNoIndex; at = keys_[at].parent) {
    KeyRecord& key = keys_[at];
    const auto place = std::ranges::lower_bound(key.wanters, agent, {}, &KeyRecord::Wanter::agent);
    assert(place != key.wanters.end() && place->agent == agent);
    if (--place->count > 0) return;
    key.wanters.erase(place);
    DirtyKey(at);
  }
}

void KeyTable::DirtyKey(KeyIndex at) {
  if (keys_[at].dirty) return;
  keys_[at].dirty = true;
  dirty_keys_.push_back(at);
}

// Stops where an earlier walk has been.
void KeyTable::DirtyUpwards(KeyIndex at) {
  for (; at != kNoIndex && !keys_[at].walked; at = keys_[at].parent) {
    DirtyKey(at);
    keys_[at].walked = true;
  }
}

KeyTable::LinkResult KeyTable::Link(std::string_view name, std::string_view parent_name) {
  const KeyIndex child = KeyFor(name);
  const KeyIndex parent = child == kNoIndex ? kNoIndex : KeyFor(parent_name, child);
  if (parent == kNoIndex) return LinkResult::kFull;
  if (keys_[child].parent == parent) return LinkResult::kLinked;
  if (child == parent) return LinkResult::kCircle;
  if (keys_[child].first_child != kNoIndex) {
    for (KeyIndex up = parent; up != kNoIndex; up = keys_[up].parent) {
      if (up == child) return LinkResult::kCircle;
    }
  }
  MoveUnder(parent, child);
  return LinkResult::kLinked;
}

void KeyTable::MoveUnder(KeyIndex parent, KeyIndex child) {
  const KeyIndex before = keys_[child].parent;
  for (const auto& [agent, count] : keys_[child].wanters) {
    if (before != kNoIndex) RemoveWanter(before, agent);
    if (parent != kNoIndex) AddWanter(parent, agent);
  }
  Orphan(child);
  if (parent != kNoIndex) Adopt(parent, child);
  if (keys_[child].walked) DirtyUpwards(parent);
  keys_[child].depth_as_of = 0;
  if (keys_[child].first_child != kNoIndex) ++depths_as_of_;
}

std::uint32_t KeyTable::Depth(KeyIndex at) {
  if (keys_[at].depth_as_of == depths_as_of_) return keys_[at].depth;
  std::vector<KeyIndex> unknown;
  KeyIndex up = at;
  for (; up != kNoIndex && keys_[up].depth_as_of != depths_as_of_; up = keys_[up].parent) {
    unknown.push_back(up);
  }
  std::uint32_t depth = up == kNoIndex ? 0 : keys_[up].depth + 1;
  for (; !unknown.empty(); unknown.pop_back(), ++depth) {
    keys_[unknown.back()].depth = depth;
    keys_[unknown.back()].depth_as_of = depths_as_of_;
  }
  return keys_[at].depth;
}

KeyTable::Memory KeyTable::Remember(std::string_view name) const {
  const KeyRecord* key = Find(name);
  if (key == nullptr) return {.key = std::string(name), .parent = {}};
  return {.key = key->name,
          .there = true,
          .was_bound = key->was_bound,
          .parent = key->parent == kNoIndex ? std::string() : keys_[key->parent].name};
}

void KeyTable::Restore(const Memory& memory) {
  const auto found = key_names_.find(memory.key);
  if (found == key_names_.end()) return;
  const KeyIndex at = found->second;
  const auto parent = key_names_.find(memory.parent);
  const KeyIndex above = parent == key_names_.end() ? kNoIndex : parent->second;
  if (keys_[at].parent != above) MoveUnder(above, at);
  keys_[at].was_bound = memory.was_bound;
  DirtyUpwards(at);
  if (!memory.there) Forget(memory.key);
}

void KeyTable::Adopt(KeyIndex parent, KeyIndex child) {
  KeyRecord& key = keys_[child];
  key.parent = parent;
  key.next_sibling = keys_[parent].first_child;
  if (key.next_sibling != kNoIndex) keys_[key.next_sibling].prev_sibling = child;
  keys_[parent].first_child = child;
}

void KeyTable::Orphan(KeyIndex child) {
  KeyRecord& key = keys_[child];
  if (key.parent == kNoIndex) return;
  if (key.next_sibling != kNoIndex) keys_[key.next_sibling].prev_sibling = key.prev_sibling;
  (key.prev_sibling != kNoIndex ? keys_[key.prev_sibling].next_sibling
                                : keys_[key.parent].first_child) = key.next_sibling;
  key.parent = key.next_sibling = key.prev_sibling = kNoIndex;
}

// --- advice ---

bool KeyTable::Advise(std::string_view name, const AdvisedUse& advice) {
  const KeyIndex at = KeyFor(name);
  if (at == kNoIndex) return false;
  if (keys_[at].advised_by == kNoIndex) {
    const AgentIndex speaker = NewAgent();
    agents_[speaker].advice = advice;
    agents_[speaker].advised_key = at;
    keys_[at].advised_by = speaker;
    ++advised_;
    AddWanter(at, speaker);
  }
  const AgentIndex speaker = keys_[at].advised_by;
  agents_[speaker].advice = advice;
  Dirty(speaker);
  DirtyUpwards(at);
  return true;
}

void KeyTable::DropAdvice(KeyIndex at) {
  const AgentIndex speaker = keys_[at].advised_by;
  RemoveWanter(at, speaker);
  keys_[at].advised_by = kNoIndex;
  --advised_;
  DropAgentIfIdle(speaker);
}

}  // namespace spillway
