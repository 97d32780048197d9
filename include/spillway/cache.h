// SPDX-License-Identifier: Apache-2.0
// Cache: stores contexts by key in memory that is idle, and gives the memory back when other
// programs need it.
//
//   auto cache = spillway::Cache::Open({}).value();
//   cache->Start();
//   cache->Set("context:planner", spillway::Source(bytes, size), {.tokens = 4096});
//   if (auto got = cache->Get("context:planner"); got && *got) Use((*got)->data());
//
// Every call is safe from any thread. A `Get` hit takes no lock and allocates nothing. Values are
// immutable: setting a key again makes a new generation, and a lease on the old generation stays
// valid until it is released.
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

class Core;   // The implementation behind a Cache.
struct Slot;  // The index record of one entry, with its lease count.

// A counted right to read an entry's bytes in place. While a lease exists, the bytes are not moved,
// overwritten or freed, even if the key is replaced or erased. A lease may outlive its Cache.
// Movable, not copyable. Releasing never fails.
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
  // The value's bytes, size() of them. Valid until the lease is released.
  const std::byte* data() const { return data_; }
  // The address space of data(): the host's or the GPU's.
  Place place() const;
  Bytes size() const { return size_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

  // Facts fixed when the entry was set. The views are valid as long as the lease.
  Tokens tokens() const;
  std::uint64_t generation() const;
  std::string_view agent() const;
  std::string_view meta() const;

  // Ends the lease; data() must not be used afterwards. Does nothing on an empty lease.
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

// What Set stores beside the value.
struct SetOptions {
  Tokens tokens = 0;
  // The agent this context belongs to. Empty: the agent is taken from a key of the form
  // `context:<agent>`.
  std::string_view agent{};
  std::string_view parent{};      // Key of the entry whose prefix this one continues. Empty: none.
  std::string_view meta{};        // A small blob stored with the entry.
  std::optional<Duration> ttl{};  // The entry expires this long from now, used or not.
  bool idle_ttl = true;           // False: the tiers' idle ttl settings do not apply to this entry.
  // What the client knows about the next use.
  Hint hint = Hint::kNone;
  std::optional<Duration> eta{};  // With kAgain: time until the next use.
  // The event after which the entry is used next: a name, as in "tool" or "human", or RUN/STEP for
  // a step of an attached graph. At most 1 KiB.
  std::string_view step{};
  // Time to compute the value again. Empty: estimated from `tokens`.
  std::optional<Duration> recompute{};
};

// How Get reads a value.
struct GetOptions {
  // The address space the lease's data() must be in. Ignored if `into` is not empty.
  Place where = Place::kHost;
  // How long to wait for a copy from a lower tier. With zero, lower tiers are not read and an entry
  // that is only there is the error NotResident.
  Duration wait = std::chrono::seconds(10);
  // Not empty: the value is copied to this sink and no lease is kept.
  Sink into{};
  // What the reader knows about the next use; see SetOptions.
  Hint hint = Hint::kNone;
  std::optional<Duration> eta{};
  std::string_view step{};  // See SetOptions.
};

// One operation of a batch and its outcome. The memory it points to (key, source, sink, options)
// must stay valid until the batch has completed.
struct Operation {
  enum class Kind : std::uint8_t { kSet, kGet, kErase, kTouch };

  Kind kind = Kind::kGet;
  std::string_view key;
  Source source;   // kSet
  SetOptions set;  // kSet; kTouch uses only the hint.
  GetOptions get;  // kGet

  // The outcome, written before completion.
  Status status;       // Why a kSet was refused, or that an argument is wrong.
  bool found = false;  // kGet: hit. kErase, kTouch: the key was present.
  Bytes bytes = 0;     // kGet: size of the value.
  Lease lease;         // kGet without a sink.
};

// How the end of a batch is announced: by a callback, run on the thread that finished the batch, or
// by writing 1 to an eventfd.
class SPILLWAY_API Completion {
 public:
  explicit Completion(std::function<void()> callback) : callback_(std::move(callback)) {}
  // Writes 1 to `fd`, which stays the caller's and must stay open until the batch has completed.
  static Completion EventFd(int fd);

  void Run() const { callback_(); }

 private:
  std::function<void()> callback_;
};

// The result of Apply: evicted entries and the level after the pass.
struct Applied {
  std::vector<Eviction> left;
  Level level = Level::kRelaxed;
};

// The result of Reclaim.
struct Reclaimed {
  Bytes freed = 0;
  std::string why_not_more;  // Empty: everything requested was freed.
};

// Thread-safe, except Open, Close and the destructor.
class SPILLWAY_API Cache {
 public:
  // Opens a cache. A bad option is an error that names the option; nothing stays open then.
  static Result<std::unique_ptr<Cache>> Open(const Options& options);
  // Closes like Close, but only logs errors. Open leases stay readable; their memory is freed when
  // the last of them is released.
  ~Cache();
  // Closes the cache and reports whether its disk tier is safe. OK: all its entries are on stable
  // storage, and no value that was replaced, erased or cleared can come back at the next open. If
  // the pending deletes cannot be written, the disk tier is reset and the next open finds it empty.
  // Unavailable: the reset failed too, so old values may come back. Deadline: the disk does not
  // respond.
  static Status Close(std::unique_ptr<Cache> cache);
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  // Start begins pressure sampling and background work; Stop ends both. Both may be called
  // repeatedly. Without Start all other calls work. After Stop entries stay, and Set is not refused
  // because of pressure.
  Status Start();
  void Stop();

  // Copies `source` into the cache. Other threads see the entry only when it is complete. Errors:
  // Blocked, OverBudget, TooLarge, InvalidArgument, NoMemory. An error leaves the cache unchanged.
  Status Set(std::string_view key, const Source& source, const SetOptions& options = {});

  // Returns a lease on the newest generation, or empty if the key is missing. On a GPU, data() is a
  // host address unless GetOptions::where asks for a device address. GetMany and GetChain return
  // the address where the bytes are; place() says which kind it is.
  Result<std::optional<Lease>> Get(std::string_view key);
  Result<std::optional<Lease>> Get(std::string_view key, const GetOptions& options);
  // Gets many keys at once; their index reads overlap in memory. leases[i] is empty where keys[i]
  // missed. Returns the number of hits.
  std::size_t GetMany(const std::string_view* keys, std::size_t count, Lease* leases);

  // Removes the key. Returns whether it was present. Open leases stay readable.
  bool Erase(std::string_view key);
  // Removes all entries.
  void Clear();
  // Waits until deletes are durable: values that were replaced, erased or cleared before this call
  // cannot come back from the disk tier, even after a crash. Set, Erase and Clear wait for that
  // too, up to one second for the disk and ten seconds while its folder is read in after Open, and
  // take effect in any case. Unavailable: deletes are still pending because the disk is slow or
  // fails; the message says why.
  Status FlushDeletes(Duration within);
  // Whether the key is present in any tier. Not counted as a use.
  bool Contains(std::string_view key) const;
  // Counts as a use of the key. `hint`, `eta` and `step` say what the client knows about the next
  // use, as in SetOptions. Returns whether the key is present.
  bool Touch(std::string_view key, Hint hint = Hint::kNone, std::optional<Duration> eta = {},
             std::string_view step = {});

  // Returns how many of `keys` are present, counted from the first up to the first gap. After the
  // first key, an entry that was set with a parent counts only if the key before it is that parent,
  // in the generation it was set with.
  std::size_t Match(const std::vector<std::string_view>& keys) const;
  // Finds the same keys as Match and returns a lease on each.
  std::vector<Lease> GetChain(const std::vector<std::string_view>& keys);
  // The same, with what the client knows about the next use. It applies to the last key found; the
  // other keys are used without a hint.
  std::vector<Lease> GetChain(const std::vector<std::string_view>& keys, const GetOptions& said);

  // Starts to copy these keys into free memory of the device tier, ahead of a get. Evicts nothing.
  // Returns how many are there already or in flight.
  std::size_t Prefetch(const std::string_view* keys, std::size_t count);

  // The call all others are made of. Runs `operations` independently of one another and completes
  // once. An operation that is not admitted within `within` fails with Deadline.
  void Submit(Operation* operations, std::size_t count, Duration within, Completion done);

  // Runs one pass of the policy now, with this pressure or, if empty, with the source's own
  // reading.
  Applied Apply(std::optional<double> pressure = std::nullopt);
  // Frees device memory for another user in this process. Never destroys a last copy. Returns how
  // much was freed, and why not more.
  Reclaimed Reclaim(Bytes bytes, Duration within);

  // Attaches a step graph; null: none. While a run of it is live (mode WORKFLOW_AWARE), its
  // knowledge of next uses determines the eviction order. An entry that was set with an agent
  // belongs to the agent of that name in the graph's client with the empty name. Replaces a graph
  // attached before.
  void Attach(std::shared_ptr<StepGraph> graph);
  // Returns the attached graph; attaches a new one if there is none. Pass now() as its time
  // arguments.
  std::shared_ptr<StepGraph> step_graph();
  // Returns the attached graph, or null.
  std::shared_ptr<StepGraph> attached_graph() const;
  // Attaches an order from an external graph. `order` returns names of agents, evict-first in front
  // and soonest to run at the end; empty: no run is live. It is called on the cache's strand, a few
  // times a second at most: it must return quickly and must not call the cache.
  using AgentOrder = std::function<std::vector<std::string>()>;
  void Attach(AgentOrder order);
  // The current time of the cache's clock.
  TimePoint now() const;

  // Live entries and their tokens, in all tiers.
  std::size_t size() const;
  Tokens total_tokens() const;
  // The device tier's level, or WORKFLOW_AWARE.
  Mode mode() const;
  // Level of the device tier, or of a tier by name ("device", "host", "disk").
  Level level() const;
  Level level(std::string_view tier) const;
  std::optional<double> pressure() const;  // Empty: UNKNOWN, or there is no such tier.
  std::optional<double> pressure(std::string_view tier) const;
  bool is_blocked() const;  // Whether every Set would be refused for pressure now.

  // All counters and gauges at this moment; see stats.h.
  Stats stats() const;
  // The processes that hold memory of the device, this one too, where that can be told: on a
  // virtual card with a name. Empty elsewhere.
  std::vector<DeviceProcess> processes() const;
  // Explains in words where the entry is, why it was evicted, and what would bring it back.
  std::string Explain(std::string_view key) const;
  // Keys of all entries that may be evicted, evict-first in front, by the order in force. Idle
  // limits are ignored.
  std::vector<std::string> EvictionOrder() const;
  // What ForEach and Visit show of an entry. The views are valid during the call.
  struct EntryInfo {
    std::string_view key;
    std::string_view agent;
    Tokens tokens = 0;
    Bytes bytes = 0;
    std::uint64_t access_count = 0;
    Duration idle{};
    std::uint64_t leases = 0;
    bool offloaded = false;
    std::string_view tier;  // The highest tier with a copy: "device".
    bool clean = false;     // Clean: a lower tier has a copy, too.
  };
  // Calls `visit` for every live entry, in no particular order.
  void ForEach(const std::function<void(const EntryInfo&)>& visit) const;
  // Calls `visit` for one entry and returns true, or returns false if the key is missing. Not
  // counted as a use.
  bool Visit(std::string_view key, const std::function<void(const EntryInfo&)>& visit) const;

  // One event in a key's history: a copy from a lower tier arrived, or a copy was removed.
  struct Transition {
    TimePoint at;
    std::uint64_t generation = 0;
    bool came = false;              // A copy arrived from a lower tier.
    Action action = Action::kDrop;  // Only if not `came`.
    Reason reason = Reason::kIdle;  // Only if not `came`.
    Level level = Level::kRelaxed;
    double pressure = 0;
    std::string_view from;  // Name of the tier.
    std::string_view to;    // Name of the tier, if `came`.
    Bytes bytes = 0;
  };
  // Returns up to `most` of the latest events of a key, newest first.
  std::vector<Transition> History(std::string_view key, std::size_t most) const;

  // A copy between tiers that is in flight now.
  struct InFlight {
    std::string key;
    std::string_view from;
    std::string_view to;
    Bytes bytes = 0;
  };
  // Returns up to `most` such copies.
  std::vector<InFlight> TransfersInFlight(std::size_t most) const;

 private:
  friend class Core;
  explicit Cache(std::shared_ptr<Core> core);
  std::shared_ptr<Core> core_;
};

}  // namespace spillway
