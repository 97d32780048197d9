// SPDX-License-Identifier: Apache-2.0
// KeyTable knows which agents need which keys. An agent belongs to a client, has steps in the
// client's runs, and keys are bound to it. A key may continue a parent key; an agent that needs a
// key needs its parent, too. From the expected times of steps the table derives, for every key,
// when it will be used next. It keeps a list of keys in the order in which that last changed.
//
//   1. A key's wanters are the agents bound to it or to a descendant. An agent is counted once if
//      it is bound to the key itself and once for each child it needs. So a parent is always
//      needed at least as soon as its children.
//   2. A binding is held by the runs that made it. It ends when the last of them ends.
//   3. After Settle nothing is dirty: the Want of an agent is merged from its steps, the Want of a
//      key from its wanters.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/name_hash.h"
#include "graph/run_graph.h"
#include "graph/want.h"
#include "spillway/step_graph_types.h"

namespace spillway {

using RunSlot = std::uint32_t;
using AgentIndex = std::uint32_t;
using KeyIndex = std::uint32_t;
using BindingIndex = std::uint32_t;
// The run slot of bindings that hold in all runs (Own).
inline constexpr RunSlot kNoRun = ~RunSlot{0};

// A step of a live run.
struct StepRef {
  RunSlot run = 0;
  StepIndex step = 0;
};

// Through this the table reads the expected time of a step.
class StepReader {
 public:
  virtual ~StepReader() = default;
  virtual Want Read(StepRef step) const = 0;
};

// A prediction of one key's next use, given by StepGraph::Advise.
struct AdvisedUse {
  TimePoint given;
  Duration eta{};
  double p = 0;
};

// An agent, or a stand-in for advice. Kept while it has steps, bindings or advice.
struct AgentRecord {
  std::string client;
  std::string name;
  std::vector<StepRef> steps;
  std::vector<BindingIndex> bindings;
  std::uint32_t volatile_keys = 0;  // Active bindings of kind kVolatile.
  // Set: this is no agent but a stand-in, through which advice applies to one key.
  std::optional<AdvisedUse> advice;
  KeyIndex advised_key = kNoIndex;
  // In no run: keys only belong to the agent (Own), which alone never makes them retired.
  bool standing = false;
  Want want;
  bool dirty = false;
};

// A key. Its record is kept while an agent needs it or it has children, and beyond that until its
// place is needed (MakeRoom) or it is forgotten.
struct KeyRecord {
  // An agent that needs the key, with the number of reasons (invariant 1).
  struct Wanter {
    AgentIndex agent = 0;
    std::uint32_t count = 0;
  };
  std::string name;
  KeyIndex parent = kNoIndex;
  KeyIndex first_child = kNoIndex;
  KeyIndex next_sibling = kNoIndex, prev_sibling = kNoIndex;
  KeyIndex newer = kNoIndex, older = kNoIndex;  // Neighbours in the list of changes.
  std::uint32_t depth = 0;  // Valid if depth_as_of equals the table's depths_as_of_.
  std::uint64_t depth_as_of = 0;
  AgentIndex advised_by = kNoIndex;
  std::vector<Wanter> wanters;  // Sorted by agent.
  bool was_bound = false;       // An agent of a run needs it now or needed it before.
  bool forgotten = false;       // Kept only because it has children.
  bool dirty = false;           // In dirty_keys_: its wanters changed, or the Want of one of them.
  bool walked = false;          // All keys it continues are marked dirty, too.
  Want want;
  bool known = false;
  bool retired = false;
  // The last facts reported as a change. Compared with the present to tell whether time alone makes
  // another change.
  Want told;
  TimePoint told_at;
  std::uint64_t changed_at = 0;
};

class KeyTable {
 public:
  explicit KeyTable(std::size_t keys_max) : keys_max_(keys_max) {}

  // --- agents ---
  // Finds or adds an agent.
  AgentIndex AgentFor(std::string_view client, std::string_view name);
  std::optional<AgentIndex> FindAgent(std::string_view client, std::string_view name) const;
  // A step of a run belongs to the agent.
  void AddStep(AgentIndex agent, StepRef step);
  // Removes the steps of a run that has ended, and agents that have nothing left.
  void DropSteps(std::span<const AgentIndex> agents, RunSlot run);
  // One of the agent's steps changed, so its Want must be computed again.
  void Dirty(AgentIndex agent);
  // In the order in which the agents were added.
  std::vector<AgentIndex> AgentsOf(std::string_view client) const;

  // --- keys ---
  struct Bound {
    BindingIndex binding = 0;
    bool is_new = false;  // This run did not hold the binding before.
  };
  // Binds a key to an agent, on behalf of a run. Empty: no room for another key.
  std::optional<Bound> Bind(AgentIndex agent, std::string_view key, KeyKind kind, RunSlot run);
  // The run no longer holds the binding. The last release removes it.
  void Release(BindingIndex binding, RunSlot run);
  // Binds a key to an agent in all present and future runs, until Disown.
  bool Own(std::string_view client, std::string_view agent, std::string_view key);
  void Disown(std::string_view client, std::string_view agent, std::string_view key);
  // A step of the agent has ended and none of its other steps runs: its kVolatile keys are no
  // longer needed.
  void SpendVolatile(AgentIndex agent);
  enum class LinkResult : std::uint8_t { kLinked, kFull, kCircle };
  // `key` continues `parent`. kCircle: `parent` already continues `key`.
  LinkResult Link(std::string_view key, std::string_view parent);
  bool Advise(std::string_view key, const AdvisedUse& advice);  // False: no room.
  // Removes the key unless an agent needs it. Ends advice on it.
  void Forget(std::string_view key);

  // The state of a key before an operation, to restore it after the operation has failed and its
  // bindings have been removed.
  struct Memory {
    std::string key;
    bool there = false;
    bool was_bound = false;
    std::string parent;  // Empty: no parent.
  };
  Memory Remember(std::string_view key) const;
  void Restore(const Memory& memory);

  // --- queries ---
  void DirtyAdvice();  // Time has passed, so advice must be evaluated again.
  // Brings all keys up to date. If any changed, increases `*version` once and stamps those keys
  // with it.
  void Settle(const StepReader& reader, TimePoint now, std::uint64_t* version);
  // Null: the table has no such key.
  const KeyRecord* Find(std::string_view key) const;
  // Keys stamped with a later version, oldest change first.
  std::vector<KeyIndex> ChangedSince(std::uint64_t version) const;
  // The number of keys it continues. Cached in the record until the next Link.
  std::uint32_t Depth(KeyIndex at);

  // Names of up to `most` keys that belong to the agent; `more`: how many were left out.
  std::vector<std::string> KeysOf(AgentIndex agent, std::size_t most, std::size_t* more) const;

  const KeyRecord& key(KeyIndex at) const { return keys_[at]; }
  const AgentRecord& agent(AgentIndex at) const { return agents_[at]; }
  std::size_t size() const { return key_names_.size(); }
  std::size_t agents() const { return agents_.size() - free_agents_.size(); }
  // All key indexes are below this. An index in use by no key has `known` false.
  KeyIndex places() const { return static_cast<KeyIndex>(keys_.size()); }

 private:
  // A binding of a key to an agent, with the runs that hold it. An inactive one (a spent kVolatile
  // key) is kept, so that the same run can activate it again.
  struct Binding {
    AgentIndex agent = 0;
    KeyIndex key = 0;
    KeyKind kind = KeyKind::kFixed;
    bool active = false;
    std::uint32_t place = 0;  // Index in its agent's list.
    std::vector<RunSlot> holders;
  };

  AgentIndex NewAgent();
  void DropAgentIfIdle(AgentIndex agent);
  // Adds the agent to the key's wanters, or removes it.
  void Activate(Binding* binding, bool active);
  void RemoveBinding(BindingIndex at);

  // Finds or adds a key. kNoIndex: no room. `kept` is not removed to make room.
  KeyIndex KeyFor(std::string_view name, KeyIndex kept = kNoIndex);
  void MakeRoom(KeyIndex kept);
  // Frees a forgotten key without wanters and children. False: it is still in use.
  bool FreeIfUnused(KeyIndex at);
  // Adds or removes one reason, at the key and up its chain of parents.
  void AddWanter(KeyIndex from, AgentIndex agent);
  void RemoveWanter(KeyIndex from, AgentIndex agent);
  void DirtyKey(KeyIndex at);
  // Marks the key and all keys it continues as dirty.
  void DirtyUpwards(KeyIndex at);
  void MoveUnder(KeyIndex parent, KeyIndex child);  // kNoIndex: without a parent.
  // Adopt and Orphan maintain the list of a parent's children.
  void Adopt(KeyIndex parent, KeyIndex child);
  void Orphan(KeyIndex child);
  void DropAdvice(KeyIndex at);

  void SettleAgents(const StepReader& reader, TimePoint now);
  // The agent's Want: merged from its steps, or from its advice.
  Want WantOf(AgentIndex agent, const StepReader& reader, TimePoint now) const;
  bool SettleKey(KeyIndex at, TimePoint now);
  // The list of changes: keys in the order of their last change.
  void Unlist(KeyIndex at);
  void ListNewest(KeyIndex at);
  void ListOldest(KeyIndex at);

  const std::size_t keys_max_;
  std::deque<AgentRecord> agents_;
  std::vector<AgentIndex> free_agents_;
  std::unordered_map<std::string, AgentIndex, NameHash> agent_names_;
  std::vector<AgentIndex> dirty_agents_;
  std::vector<Binding> bindings_;
  std::vector<BindingIndex> free_bindings_;
  std::unordered_map<std::uint64_t, BindingIndex> binding_of_;  // By agent and key.

  // A deque, so that records keep their address: key_names_ refers to their names.
  std::deque<KeyRecord> keys_;
  std::vector<KeyIndex> free_keys_;
  std::unordered_map<std::string_view, KeyIndex, NameHash> key_names_;
  std::vector<KeyIndex> dirty_keys_;
  KeyIndex newest_ = kNoIndex;
  KeyIndex oldest_ = kNoIndex;
  std::size_t advised_ = 0;
  std::uint64_t depths_as_of_ = 1;  // Rises when a key with children gets another parent.
};

}  // namespace spillway
