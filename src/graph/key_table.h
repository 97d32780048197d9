// KeyTable knows which agents want which keys. Agents belong to a client, have
// steps in its runs and keys bound to them; keys continue one another, and who
// wants a key wants all it continues. From what the steps say it derives, for
// every key, how soon it will be used, and keeps a list of keys in the order in
// which that last changed.
//
//   1. A key's wanters are the agents bound to it or to a descendant. Each is
//      counted once if bound to the key itself and once for each child it wants.
//      So a parent is never wanted less than its children.
//   2. A binding is held by the runs that named it; it ends with the last one.
//   3. After Settle nothing is dirty: an agent's want is its steps' merged, a
//      key's is its wanters' merged.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/run_graph.h"
#include "graph/want.h"
#include "spillway/step_graph_types.h"

namespace spillway {

using RunSlot = std::uint32_t;
using AgentIndex = std::uint32_t;
using KeyIndex = std::uint32_t;
using BindingIndex = std::uint32_t;
inline constexpr RunSlot kNoRun = ~RunSlot{0};  // Holds what belongs to an agent in any run.

struct StepRef {
  RunSlot run = 0;
  StepIndex step = 0;
};

// What the table asks about steps.
class StepReader {
 public:
  virtual ~StepReader() = default;
  virtual Want Read(StepRef step) const = 0;
};

struct AdvisedUse {
  TimePoint given;
  Duration eta{};
  double p = 0;
};

struct AgentRecord {
  std::string client;
  std::string name;
  std::vector<StepRef> steps;
  std::vector<BindingIndex> bindings;
  std::uint32_t volatile_keys = 0;   // Active bindings of that kind.
  std::optional<AdvisedUse> advice;  // Then it is nobody's agent, but speaks for one key:
  KeyIndex advised_key = kNoIndex;
  // No run speaks of it: keys only belong to it, and are not missed by anybody.
  bool standing = false;
  Want want;
  bool dirty = false;
};

struct KeyRecord {
  struct Wanter {
    AgentIndex agent = 0;
    std::uint32_t count = 0;
  };
  std::string name;
  KeyIndex parent = kNoIndex;
  KeyIndex first_child = kNoIndex;
  KeyIndex next_sibling = kNoIndex, prev_sibling = kNoIndex;
  KeyIndex newer = kNoIndex, older = kNoIndex;  // In the list of changes.
  std::uint32_t depth = 0;                      // True while depth_as_of is the table's.
  std::uint64_t depth_as_of = 0;
  AgentIndex advised_by = kNoIndex;
  std::vector<Wanter> wanters;  // Sorted by agent.
  bool was_bound = false;       // Some agent of a run wanted it, or still does.
  bool forgotten = false;       // Kept only for its children.
  bool dirty = false;           // Its wanters, or what one of them wants, changed;
  bool walked = false;          // and that of all it continues is noted, too.
  Want want;
  bool known = false;
  bool retired = false;
  // As of its last change, to tell whether time alone makes another.
  Want told;
  TimePoint told_at;
  std::uint64_t changed_at = 0;
};

class KeyTable {
 public:
  explicit KeyTable(std::size_t keys_max) : keys_max_(keys_max) {}

  // --- agents ---
  AgentIndex AgentFor(std::string_view client, std::string_view name);
  std::optional<AgentIndex> FindAgent(std::string_view client, std::string_view name) const;
  void AddStep(AgentIndex agent, StepRef step);
  // The run is over: its steps are dropped, and agents that have nothing left.
  void DropSteps(std::span<const AgentIndex> agents, RunSlot run);
  void Dirty(AgentIndex agent);
  // In the order in which they became known.
  std::vector<AgentIndex> AgentsOf(std::string_view client) const;

  // --- keys ---
  struct Bound {
    BindingIndex binding = 0;
    bool is_new = false;  // To this run.
  };
  // Empty: no room for another key.
  std::optional<Bound> Bind(AgentIndex agent, std::string_view key, KeyKind kind, RunSlot run);
  void Release(BindingIndex binding, RunSlot run);
  // The same whatever runs there are, until Disown.
  bool Own(std::string_view client, std::string_view agent, std::string_view key);
  void Disown(std::string_view client, std::string_view agent, std::string_view key);
  // A step of that agent is over, and no other runs: what was of use to it alone
  // is wanted no more.
  void SpendVolatile(AgentIndex agent);
  enum class LinkResult : std::uint8_t { kLinked, kFull, kCircle };
  LinkResult Link(std::string_view key, std::string_view parent);
  bool Advise(std::string_view key, const AdvisedUse& advice);  // False: no room.
  void Forget(std::string_view key);

  // How a key stood, to put it back so after what was done to it since has been
  // undone as far as agents go.
  struct Memory {
    std::string key;
    bool there = false;
    bool was_bound = false;
    std::string parent;  // Empty: none.
  };
  Memory Remember(std::string_view key) const;
  void Restore(const Memory& memory);

  // --- what follows ---
  void DirtyAdvice();  // Time has moved.
  // Sets `*version` to a new one with each batch of changes.
  void Settle(const StepReader& reader, TimePoint now, std::uint64_t* version);
  const KeyRecord* Find(std::string_view key) const;
  std::vector<KeyIndex> ChangedSince(std::uint64_t version) const;
  // How many it continues; until the next Link it stands in the record.
  std::uint32_t Depth(KeyIndex at);

  // Names of what belongs to it, at most `most`; `more`: how many are left out.
  std::vector<std::string> KeysOf(AgentIndex agent, std::size_t most, std::size_t* more) const;

  const KeyRecord& key(KeyIndex at) const { return keys_[at]; }
  const AgentRecord& agent(AgentIndex at) const { return agents_[at]; }
  std::size_t size() const { return key_names_.size(); }
  std::size_t agents() const { return agents_.size() - free_agents_.size(); }
  // Keys have numbers below this; a number nobody has is not known.
  KeyIndex places() const { return static_cast<KeyIndex>(keys_.size()); }

 private:
  struct Binding {
    AgentIndex agent = 0;
    KeyIndex key = 0;
    KeyKind kind = KeyKind::kFixed;
    bool active = false;
    std::uint32_t place = 0;  // Among its agent's.
    std::vector<RunSlot> holders;
  };

  AgentIndex NewAgent();
  void DropAgentIfIdle(AgentIndex agent);
  void Activate(Binding* binding, bool active);
  void RemoveBinding(BindingIndex at);

  // kNoIndex: no room, or none but that of `kept`.
  KeyIndex KeyFor(std::string_view name, KeyIndex kept = kNoIndex);
  void MakeRoom(KeyIndex kept);
  bool FreeIfUnused(KeyIndex at);
  void AddWanter(KeyIndex from, AgentIndex agent);
  void RemoveWanter(KeyIndex from, AgentIndex agent);
  void DirtyKey(KeyIndex at);
  void DirtyUpwards(KeyIndex at);
  void MoveUnder(KeyIndex parent, KeyIndex child);  // kNoIndex: under nobody.
  void Adopt(KeyIndex parent, KeyIndex child);
  void Orphan(KeyIndex child);
  void DropAdvice(KeyIndex at);

  void SettleAgents(const StepReader& reader, TimePoint now);
  Want WantOf(AgentIndex agent, const StepReader& reader, TimePoint now) const;
  bool SettleKey(KeyIndex at, TimePoint now);
  void Unlist(KeyIndex at);
  void ListNewest(KeyIndex at);
  void ListOldest(KeyIndex at);

  const std::size_t keys_max_;
  std::deque<AgentRecord> agents_;
  std::vector<AgentIndex> free_agents_;
  std::unordered_map<std::string, AgentIndex> agent_names_;
  std::vector<AgentIndex> dirty_agents_;
  std::vector<Binding> bindings_;
  std::vector<BindingIndex> free_bindings_;
  std::unordered_map<std::uint64_t, BindingIndex> binding_of_;  // By agent and key.

  std::deque<KeyRecord> keys_;  // They stay where they are: the names below look at them.
  std::vector<KeyIndex> free_keys_;
  std::unordered_map<std::string_view, KeyIndex> key_names_;
  std::vector<KeyIndex> dirty_keys_;
  KeyIndex newest_ = kNoIndex;
  KeyIndex oldest_ = kNoIndex;
  std::size_t advised_ = 0;
  std::uint64_t depths_as_of_ = 1;  // Rises when more than a leaf was moved.
};

}  // namespace spillway
