// SPDX-License-Identifier: Apache-2.0
// A machine on virtual time: the real cache on a GPU and a host that only count bytes,
// and a link between them that takes as long as its speed says. One thread; time
// advances when a call waits or Work is called. For tests and benches of what is
// decided, when, and what it costs.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cache/core.h"
#include "spillway/testing.h"
#include "tier/virtual_tier.h"

namespace spillway::testing {

// Memory that only counts bytes.
class VirtualMemory : public Tier {
 public:
  VirtualMemory(Bytes capacity, std::string name) : memory_(capacity, std::move(name)) {}
  std::string_view name() const override { return memory_.name(); }
  Bytes capacity() const override { return memory_.capacity(); }
  Result<std::byte*> Allocate(Bytes bytes) override { return memory_.Allocate(bytes); }
  void Free(std::byte* block, Bytes bytes, bool clean) override {
    memory_.Free(block, bytes, clean);
  }
  void SetClean(std::byte* block, Bytes bytes, bool clean) override {
    memory_.SetClean(block, bytes, clean);
  }
  Bytes allocated() const override { return memory_.allocated(); }
  Bytes held() const override { return memory_.held(); }
  Bytes clean() const override { return memory_.clean(); }
  Status Write(std::byte*, const Source&) override { return {}; }
  Status Read(const std::byte*, Bytes, const Sink&) const override { return {}; }

 private:
  VirtualTier memory_;
};

// Memory that only the device can read.
class VirtualGpu final : public VirtualMemory {
 public:
  explicit VirtualGpu(Bytes capacity) : VirtualMemory(capacity, "device") {}
  Result<std::byte*> Allocate(Bytes bytes) override {
    Result<std::byte*> block = VirtualMemory::Allocate(bytes);
    if (block) *block += kApart;
    return block;
  }
  void Free(std::byte* block, Bytes bytes, bool clean) override {
    VirtualMemory::Free(block - kApart, bytes, clean);
  }
  void SetClean(std::byte* block, Bytes bytes, bool clean) override {
    VirtualMemory::SetClean(block - kApart, bytes, clean);
  }
  bool host_readable() const override { return false; }

 private:
  // Addresses that no other memory has.
  static constexpr std::ptrdiff_t kApart = std::ptrdiff_t{1} << 46;
};

// Memory of which two thirds of the free part are too fragmented, once half of it is
// used.
class MemoryInPieces final : public VirtualMemory {
 public:
  using VirtualMemory::VirtualMemory;
  Result<std::byte*> Allocate(Bytes bytes) override {
    if (allocated() > capacity() / 2 && ++tried_ % 3 != 0) {
      return Error{Code::kNoMemory, "in pieces"};
    }
    return VirtualMemory::Allocate(bytes);
  }

 private:
  int tried_ = 0;
};

// One lane each way; urgent transfers first, otherwise first come first served.
class VirtualTransferQueue final : public TransferQueue {
 public:
  VirtualTransferQueue(const Clock* clock, double bytes_per_s)
      : clock_(clock), rate_(bytes_per_s) {}
  void Start(Transfer* transfer) override {
    LaneOf(transfer).queue.push_back(transfer);
    Begin(&LaneOf(transfer));
  }
  void Raise(Transfer* transfer, Priority priority) override { transfer->priority = priority; }
  std::size_t Waiting(TierId from, TierId to) const override {
    const Lane& lane = lanes_[to > from ? 0 : 1];
    return lane.queue.size() + (lane.current != nullptr ? 1 : 0);
  }

  // When the next transfer ends; empty: none is in flight.
  std::optional<TimePoint> next() const {
    std::optional<TimePoint> soonest;
    for (const Lane& lane : lanes_) {
      if (lane.current == nullptr) continue;
      soonest = soonest ? std::min(*soonest, lane.ends) : lane.ends;
    }
    return soonest;
  }
  // Ends that transfer and advances time to that moment.
  Transfer* TakeNext() {
    const std::optional<TimePoint> when = next();
    for (Lane& lane : lanes_) {
      if (lane.current == nullptr || lane.ends != when) continue;
      Transfer* const transfer = std::exchange(lane.current, nullptr);
      if (to_fail > 0) {
        --to_fail;
        transfer->status = Error{Code::kUnavailable, "the virtual transfer queue was told to fail"};
      }
      if (transfer->cancelled) transfer->status = Error{Code::kCancelled, "cancelled"};
      Begin(&lane);
      return transfer;
    }
    return nullptr;
  }
  Bytes moved = 0;
  int to_fail = 0;  // So many of the next to arrive fail.

 private:
  struct Lane {
    std::vector<Transfer*> queue;
    Transfer* current = nullptr;
    TimePoint ends;
  };
  Lane& LaneOf(const Transfer* transfer) { return lanes_[transfer->to > transfer->from ? 0 : 1]; }
  void Begin(Lane* lane) {
    if (lane->current != nullptr || lane->queue.empty()) return;
    const auto first = std::ranges::min_element(lane->queue, {}, &Transfer::priority);
    lane->current = *first;
    lane->queue.erase(first);
    const double seconds = static_cast<double>(lane->current->bytes) / rate_;
    if (!lane->current->cancelled) moved += lane->current->bytes;
    const auto takes = std::chrono::duration_cast<Duration>(
        std::chrono::duration<double>(lane->current->cancelled ? 0.0 : seconds));
    lane->ends = clock_->Now() + takes;
  }

  const Clock* const clock_;
  const double rate_;
  std::array<Lane, 2> lanes_;
};

class VirtualMachine {
 public:
  struct Settings {
    Bytes device = 0;
    Bytes host = 0;
    bool host_in_pieces = false;
    double link_bytes_per_s = 55e9;
    std::string policy = "lru";
    bool prefetch = true;
    bool graph = true;
    // Entries idle for this long are copied down as fast as possible: see RunBackground.
    Duration write_back_after = std::chrono::milliseconds(500);
    Bytes reserve = 0;  // Of the device, left free for others: see Others.
    Thresholds thresholds = {};
    std::function<void(const Event&)> on_event = {};
  };
  explicit VirtualMachine(const Settings& settings)
      : clock_(std::make_shared<ManualClock>()), graph_(std::make_shared<StepGraph>()) {
    Options options;
    options.clock = clock_;
    options.policy = settings.policy;
    options.ttl.reset();
    options.token_budget.reset();
    options.prefetch_steps = settings.prefetch ? 1 : 0;
    options.write_back_after = settings.write_back_after;
    options.write_back_rate.reset();
    options.thresholds = settings.thresholds;
    options.on_event = settings.on_event;
    Core::Parts parts;
    parts.tiers.device = std::make_unique<VirtualGpu>(settings.device);
    if (settings.host_in_pieces) {
      parts.tiers.host = std::make_unique<MemoryInPieces>(settings.host, "host");
    } else {
      parts.tiers.host = std::make_unique<VirtualTier>(settings.host, "host");
    }
    auto transfer_queue =
        std::make_unique<VirtualTransferQueue>(clock_.get(), settings.link_bytes_per_s);
    transfer_queue_ = transfer_queue.get();
    parts.transfer_queue = std::move(transfer_queue);
    parts.total = settings.device;
    parts.reserve = settings.reserve;
    auto core = Core::Open(options, std::move(parts));
    if (!core) throw std::runtime_error(core.error().message);
    core_ = std::move(*core);
    if (settings.graph) core_->Attach(graph_, {});
  }
  ~VirtualMachine() {
    while (transfer_queue_->next()) Arrive();
    (void)core_->Close();
  }
  VirtualMachine(const VirtualMachine&) = delete;
  VirtualMachine& operator=(const VirtualMachine&) = delete;

  // Sets a value of so many bytes, on the host or on the device.
  void Set(std::string_view key, Bytes bytes, std::string_view parent = {},
           Place place = Place::kHost) {
    static constexpr char kNothing = 0;
    SetOptions options;
    options.parent = parent;
    NewEntry entry{key, core_->engine().store().index().HashOf(key), bytes, options, place};
    RunOn(core_->strand(), [&] {
      const auto slot = core_->engine().Admit(entry, now());
      if (!slot) throw std::runtime_error(slot.error().message);
      core_->engine().Commit(*slot, now());
    });
    (void)kNothing;
  }
  bool OnDevice(std::string_view key) const {
    const Store& store = core_->engine().store();
    const std::uint32_t slot = store.index().Lookup(store.index().HashOf(key), key);
    return slot != kNoSlot && Has(store.slots().record(slot).copies, TierId::kDevice);
  }
  // Reads it on the device; returns how long that waited. Empty: a miss.
  std::optional<Duration> Get(std::string_view key) {
    const TimePoint begun = now();
    Wanted wanted;
    wanted.key = key;
    wanted.hash = core_->engine().store().index().HashOf(key);
    wanted.where = Place::kDevice;
    // NOLINTNEXTLINE(performance-unnecessary-value-param): as PendingGet has it.
    wanted.done = [](PendingGet* self, Slot* leased, Status status) {
      auto* const pending_get = static_cast<Wanted*>(self);
      pending_get->leased = leased;
      pending_get->answered = true;
      pending_get->ok = status.has_value();
    };
    RunOn(core_->strand(), [&] { core_->engine().Fetch(&wanted, now()); });
    while (!wanted.answered) {
      if (!transfer_queue_->next()) throw std::runtime_error("a read waits for nothing");
      Arrive();
    }
    if (wanted.leased == nullptr) return std::nullopt;
    core_->Touch(key);
    core_->Release(wanted.leased);
    return now() - begun;
  }
  // Advances time; transfers end meanwhile.
  void Work(Duration time) {
    const TimePoint until = now() + time;
    while (transfer_queue_->next() && *transfer_queue_->next() <= until) Arrive();
    clock_->Set(until);
  }

  // Bytes on the device that are clean, as are all entries evicted before them.
  Bytes AtOnce() const {
    const Store& store = core_->engine().store();
    const SlotTable& slots = store.slots();
    const std::uint32_t all = slots.high_water();
    const auto on_device = [&](std::uint32_t slot) {
      return LeaseWord::StateOf(slots.slot(slot).word.Load()) == SlotState::kVisible &&
             Has(slots.record(slot).copies, TierId::kDevice);
    };
    std::vector<bool> stays(all);
    for (std::uint32_t slot = 0; slot < all; ++slot) {
      if (!on_device(slot) || slots.record(slot).clean_in(TierId::kDevice)) continue;
      for (std::uint32_t at = slot; at != kNoSlot && !stays[at]; at = store.ParentOf(at)) {
        stays[at] = true;
      }
    }
    Bytes bytes = 0;
    for (std::uint32_t slot = 0; slot < all; ++slot) {
      if (on_device(slot) && !stays[slot]) bytes += slots.slot(slot).size;
    }
    return bytes;
  }

  // So many of the transfers that arrive next fail.
  void FailMoves(int count) { transfer_queue_->to_fail = count; }
  // What others hold of the device from now on. RunBackground samples it.
  void Others(Bytes bytes) { others_ = bytes; }
  Bytes free() {
    const Bytes held = core_->engine().store().held(TierId::kDevice);
    const Bytes all = core_->engine().store().capacity(TierId::kDevice);
    return all - std::min(all, others_.value_or(0) + held);
  }

  // The same, with background work every ten milliseconds.
  void RunBackground(Duration time) {
    constexpr Duration kEvery = std::chrono::milliseconds(10);
    for (const TimePoint until = now() + time; now() < until;) {
      if (others_) {
        const Bytes all = core_->engine().store().capacity(TierId::kDevice);
        core_->Apply(1.0 - static_cast<double>(free()) / static_cast<double>(all));
      }
      RunOn(core_->strand(), [&] { core_->engine().RunBackground(now()); });
      Work(kEvery);
    }
  }

  TimePoint now() const { return clock_->Now(); }
  StepGraph& graph() { return *graph_; }
  Core& core() { return *core_; }
  Bytes moved() const { return transfer_queue_->moved; }
  Stats stats() { return core_->stats(); }

 private:
  struct Wanted : PendingGet {
    Slot* leased = nullptr;
    bool answered = false;
    bool ok = false;
  };
  void Arrive() {
    clock_->Set(*transfer_queue_->next());
    core_->strand().Post(transfer_queue_->TakeNext());
  }

  const std::shared_ptr<ManualClock> clock_;
  const std::shared_ptr<StepGraph> graph_;
  VirtualTransferQueue* transfer_queue_ = nullptr;
  std::shared_ptr<Core> core_;
  std::optional<Bytes> others_;
};

}  // namespace spillway::testing
