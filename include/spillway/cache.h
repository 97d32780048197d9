// Cache: contexts by key, lent idle memory, given back when others need it.
//
//   auto cache = spillway::Cache::Open({}).value();
//   cache->Start();
//   cache->Set("context:planner", spillway::Source(bytes, size), {.tokens = 4096});
//   if (auto got = cache->Get("context:planner"); got && *got) Use((*got)->data());
//
// Every call is safe from any thread. A `Get` hit takes no lock and allocates
// nothing. Values are immutable: setting a key again makes a new generation,
// and a lease on the old one stays good until it is released.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spillway/event.h"
#include "spillway/export.h"
#include "spillway/fragment.h"
#include "spillway/mode.h"
#include "spillway/options.h"
#include "spillway/result.h"
#include "spillway/stats.h"
#include "spillway/step_graph.h"
#include "spillway/units.h"

namespace spillway {

class Core;   // The engine behind a Cache.
struct Slot;  // Where one entry's lease word stands.

// A counted right to read an entry's bytes in place. While it lives the bytes
// are not moved, overwritten or freed, whatever happens to the key. It may
// outlive the Cache. Movable, not copyable; releasing is never refused.
class SPILLWAY_API Lease {
 public:
  Lease() = default;
  Lease(Lease&& other) noexcept
      : core_(other.core_), slot_(other.slot_), data_(other.data_), size_(other.size_) {
    other.core_ = nullptr;
  }
  Lease& operator=(Lease&& other) noexcept;
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() {
    if (core_ != nullptr) Release();
  }

  explicit operator bool() const { return core_ != nullptr; }
  const std::byte* data() const { return data_; }
  // Whether data() is an address of the host or of the GPU.
  Place place() const;
  Bytes size() const { return size_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

  // Facts fixed when the entry was set.
  Tokens tokens() const;
  std::uint64_t generation() const;
  std::string_view agent() const;
  std::string_view meta() const;

  void Release() noexcept;

 private:
  friend class Core;
  Lease(Core* core, Slot* slot, const std::byte* data, Bytes size)
      : core_(core), slot_(slot), data_(data), size_(size) {}

  Core* core_ = nullptr;
  Slot* slot_ = nullptr;
  const std::byte* data_ = nullptr;
  Bytes size_ = 0;
};

struct SetOptions {
  Tokens tokens = 0;
  std::string_view agent{};   // Whose context this is. Empty: `context:<agent>` keys name theirs.
  std::string_view parent{};  // Key of the prefix this entry continues. Empty: none.
  std::string_view meta{};    // A small blob kept with the entry.
  std::optional<Duration> ttl{};  // Its own life, from now; independent of use.
  bool idle_ttl = true;           // False: the tiers' ttl for what is idle passes it by.
  Hint hint = Hint::kNone;
  std::optional<Duration> eta{};  // With kAgain: when.
  // What it waits for: a name, as in "tool" or "human"; or, as RUN/STEP, the step
  // of an attached graph that uses it next. At most 1 KiB.
  std::string_view step{};
  // What it would cost to compute it anew; empty: by its tokens.
  std::optional<Duration> recompute{};
};

struct GetOptions {
  // What a lease's data() shall be an address of. With a sink it is of no
  // concern.
  Place where = Place::kHost;
  // How long to wait for a copy below to come up. Zero never touches a lower
  // tier and says NotResident.
  Duration wait = std::chrono::seconds(10);
  // Not empty: the value is copied there and no lease is kept.
  Sink into{};
  // What this reader knows of its next use.
  Hint hint = Hint::kNone;
  std::optional<Duration> eta{};
  std::string_view step{};  // As in SetOptions.
};

// One operation of a batch, with its outcome. What it points to (key, source,
// sink, options) must live until the batch has completed.
struct Operation {
  enum class Kind : std::uint8_t { kSet, kGet, kErase, kTouch };

  Kind kind = Kind::kGet;
  std::string_view key;
  Source source;   // kSet
  SetOptions set;  // kSet; of a kTouch its hint
  GetOptions get;  // kGet

  // Outcome, written before completion.
  Status status;       // kSet refused, or a bad argument.
  bool found = false;  // kGet: hit; kErase, kTouch: was there.
  Bytes bytes = 0;     // kGet: size of the value.
  Lease lease;         // kGet without a sink.
};

// How a batch says that it is done: a callback, run on whichever thread
// finished it, or a write of 1 to an eventfd.
class SPILLWAY_API Completion {
 public:
  explicit Completion(std::function<void()> callback) : callback_(std::move(callback)) {}
  static Completion EventFd(int fd);

  void Run() const { callback_(); }

 private:
  std::function<void()> callback_;
};

struct Applied {
  std::vector<Departure> left;
  Level level = Level::kRelaxed;
};

struct Reclaimed {
  Bytes freed = 0;
  std::string why_not_more;  // Empty when everything asked for was freed.
};

class SPILLWAY_API Cache {
 public:
  // Nothing is half-opened: a bad option is an error that names it.
  static Result<std::unique_ptr<Cache>> Open(Options options);
  // Open leases stay readable; their memory goes with the last of them. What
  // Close would answer is only logged.
  ~Cache();
  // The same, with an answer. With a disk tier: OK means that what it has is on
  // stable storage, and that nothing that was set anew, erased or cleared is
  // found again when it is opened. Where that can't be had, nothing at all is
  // found rather than something old; Unavailable: not even that could be done,
  // and older values may come back. Deadline: the disk hangs.
  static Status Close(std::unique_ptr<Cache> cache);
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  // Sensing and background work. Both may be repeated. Without Start all else
  // runs; after Stop entries stay and writes are not refused for pressure.
  Status Start();
  void Stop();

  // Copies `source` in. Visible to others only when whole. Errors: Blocked,
  // OverBudget, TooLarge, InvalidArgument, NoMemory; then nothing has changed.
  Status Set(std::string_view key, const Source& source, const SetOptions& options = {});

  // A lease on the newest generation, or nothing. On a GPU, data() is an address
  // the host can read, unless GetOptions::where asks for the device's; GetMany
  // and GetChain lend what is there, and place() says where that is.
  Result<std::optional<Lease>> Get(std::string_view key);
  Result<std::optional<Lease>> Get(std::string_view key, const GetOptions& options);
  // Many at once, their memory fetched side by side: leases[i] is empty where
  // keys[i] missed. Returns the number of hits.
  std::size_t GetMany(const std::string_view* keys, std::size_t count, Lease* leases);

  bool Erase(std::string_view key);
  void Clear();
  // Waits until nothing that was set anew, erased or cleared before can come
  // back from the disk tier, should the process be killed now. Writes wait for
  // that by themselves, for up to a second, and are done in any case.
  // Unavailable: it still can, since the disk is slow or does not take it; the
  // message says why.
  Status Settle(Duration within);
  bool Contains(std::string_view key) const;
  // Counts as a use; a hint tells what the client knows of the future.
  bool Touch(std::string_view key, Hint hint = Hint::kNone, std::optional<Duration> eta = {},
             std::string_view step = {});

  // How many of `keys`, from the first on, are present without a gap. An entry
  // that was set with a parent counts only behind that very generation of it.
  std::size_t Match(const std::vector<std::string_view>& keys) const;
  // The same run, leased as one.
  std::vector<Lease> GetChain(const std::vector<std::string_view>& keys);
  // What `said` says of the next use holds for the last of the run; of the rest of
  // it nothing counts.
  std::vector<Lease> GetChain(const std::vector<std::string_view>& keys, const GetOptions& said);

  // Begins to bring these into memory that is free, for a get to come. Returns
  // how many are there or on their way.
  std::size_t Prefetch(const std::string_view* keys, std::size_t count);

  // The core call: does all of `operations`, each on its own, and completes
  // once. What has not been admitted `within` that time ends with Deadline.
  void Submit(Operation* operations, std::size_t count, Duration within, Completion done);

  // One pass of the policy now, with this pressure or the source's own.
  Applied Apply(std::optional<double> pressure = std::nullopt);
  // Frees memory for someone in this process who needs it. Never destroys what
  // has no other copy; says exactly how much it freed and why not more.
  Reclaimed Reclaim(Bytes bytes, Duration within);

  // What a step graph says of keys orders who leaves, while a run of it is live
  // (mode WORKFLOW_AWARE); an entry set with an agent belongs to the agent of
  // that name of the client without one. Replaces a graph attached before; null:
  // none.
  void Attach(std::shared_ptr<StepGraph> graph);
  // The one attached; without one, a new one is. Its times are now().
  std::shared_ptr<StepGraph> step_graph();
  // The one attached, or null.
  std::shared_ptr<StepGraph> attached_graph() const;
  // By a graph from elsewhere: `order` names agents, who may leave first in
  // front and who runs soonest at the end; empty: no run is live. Called on the
  // cache's strand, a few times a second at most: be quick, do not call the cache.
  using AgentOrder = std::function<std::vector<std::string>()>;
  void Attach(AgentOrder order);
  TimePoint now() const;

  std::size_t size() const;
  Tokens total_tokens() const;
  Mode mode() const;
  // Of the top tier, or of one by name ("device", "host", "disk").
  Level level() const;
  Level level(std::string_view tier) const;
  std::optional<double> pressure() const;  // Empty: UNKNOWN, or no such tier.
  std::optional<double> pressure(std::string_view tier) const;
  bool is_blocked() const;  // Would any `Set` be refused for pressure now?

  Stats stats() const;
  // Where it is, why it left, what would bring it back.
  std::string Explain(std::string_view key) const;
  // All keys that could leave, by the order in force, idle limits ignored.
  std::vector<std::string> LeavingOrder() const;
  // Calls `visit` for every live entry, in no particular order.
  struct EntryInfo {
    std::string_view key;
    std::string_view agent;
    Tokens tokens = 0;
    Bytes bytes = 0;
    std::uint64_t access_count = 0;
    Duration idle{};
    std::uint64_t leases = 0;
    bool offloaded = false;
    std::string_view tier;  // The uppermost it is in: "device".
    bool backed = false;    // There is a copy below that one.
  };
  void ForEach(const std::function<void(const EntryInfo&)>& visit) const;
  // The same for one of them; false: it is not there. No use of it.
  bool Visit(std::string_view key, const std::function<void(const EntryInfo&)>& visit) const;

  // Something that happened to a key: it came up from a lower tier, or left one.
  struct Passage {
    TimePoint at;
    std::uint64_t generation = 0;
    bool came = false;              // Up, by a copy; else what follows says what was done.
    Action action = Action::kDrop;  // Unless it came.
    Reason reason = Reason::kIdle;  // Unless it came.
    Level level = Level::kRelaxed;
    double pressure = 0;
    std::string_view from;  // Tiers' names.
    std::string_view to;    // If it came.
    Bytes bytes = 0;
  };
  // The latest of these, the newest first.
  std::vector<Passage> Journey(std::string_view key, std::size_t most) const;

  // A copy on its way between tiers, now.
  struct UnderWay {
    std::string key;
    std::string_view from;
    std::string_view to;
    Bytes bytes = 0;
  };
  std::vector<UnderWay> MovesUnderWay(std::size_t most) const;

 private:
  friend class Core;
  explicit Cache(std::shared_ptr<Core> core);
  std::shared_ptr<Core> core_;
};

}  // namespace spillway
