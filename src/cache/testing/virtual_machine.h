// A machine that is only time: the real cache on a GPU and a host that count
// bytes, and a link between them that takes as long as its speed says. One
// thread; time moves when somebody waits or works. For tests and benches of what
// is decided, when, and what it costs.
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

// Memory that only counts, with a mind of its own.
class VirtualMemory : public Tier {
 public:
  VirtualMemory(Bytes capacity, std::string name) : memory_(capacity, std::move(name)) {}
  std::string_view name() const override { return memory_.name(); }
  Bytes capacity() const override { return memory_.capacity(); }
  Result<std::byte*> Allocate(Bytes bytes) override { return memory_.Allocate(bytes); }
  void Free(std::byte* block, Bytes bytes, bool backed) override {
    memory_.Free(block, bytes, backed);
  }
  void SetBacked(std::byte* block, Bytes bytes, bool backed) override {
    memory_.SetBacked(block, bytes, backed);
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
  void Free(std::byte* block, Bytes bytes, bool backed) override {
    VirtualMemory::Free(block - kApart, bytes, backed);
  }
  void SetBacked(std::byte* block, Bytes bytes, bool backed) override {
    VirtualMemory::SetBacked(block - kApart, bytes, backed);
  }
  bool host_readable() const override { return false; }

 private:
  // Addresses of its own, which are nobody else's.
  static constexpr std::ptrdiff_t kApart = std::ptrdiff_t{1} << 46;
};

// Where two of three times what is free lies in pieces too small, once half of it is used.
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

// One lane each way; the urgent first, otherwise first come first served.
class VirtualMover final : public Mover {
 public:
  VirtualMover(const Clock* clock, double bytes_per_s) : clock_(clock), rate_(bytes_per_s) {}
  void Start(Move* move) override {
    LaneOf(move).queue.push_back(move);
    Begin(&LaneOf(move));
  }
  void Raise(Move* move, Priority priority) override { move->priority = priority; }
  std::size_t Waiting(TierId from, TierId to) const override {
    const Lane& lane = lanes_[to > from ? 0 : 1];
    return lane.queue.size() + (lane.current != nullptr ? 1 : 0);
  }

  // When the next arrives; empty: nothing is under way.
  std::optional<TimePoint> next() const {
    std::optional<TimePoint> soonest;
    for (const Lane& lane : lanes_) {
      if (lane.current == nullptr) continue;
      soonest = soonest ? std::min(*soonest, lane.ends) : lane.ends;
    }
    return soonest;
  }
  // It has arrived: now is then.
  Move* TakeNext() {
    const std::optional<TimePoint> when = next();
    for (Lane& lane : lanes_) {
      if (lane.current == nullptr || lane.ends != when) continue;
      Move* const move = std::exchange(lane.current, nullptr);
      if (move->cancelled) move->status = Error{Code::kCancelled, "called off"};
      Begin(&lane);
      return move;
    }
    return nullptr;
  }
  Bytes moved = 0;

 private:
  struct Lane {
    std::vector<Move*> queue;
    Move* current = nullptr;
    TimePoint ends;
  };
  Lane& LaneOf(const Move* move) { return lanes_[move->to > move->from ? 0 : 1]; }
  void Begin(Lane* lane) {
    if (lane->current != nullptr || lane->queue.empty()) return;
    const auto first = std::ranges::min_element(lane->queue, {}, &Move::priority);
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
    // What is idle for so long is copied down, as fast as it goes: see Tend.
    Duration write_behind_after = std::chrono::milliseconds(500);
    Bytes reserve = 0;  // Of the device, left free where others use it too: see Others.
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
    options.write_behind_after = settings.write_behind_after;
    options.write_behind_rate.reset();
    options.thresholds = settings.thresholds;
    options.on_event = settings.on_event;
    Core::Parts parts;
    parts.tiers.device = std::make_unique<VirtualGpu>(settings.device);
    if (settings.host_in_pieces) {
      parts.tiers.host = std::make_unique<MemoryInPieces>(settings.host, "host");
    } else {
      parts.tiers.host = std::make_unique<VirtualTier>(settings.host, "host");
    }
    auto mover = std::make_unique<VirtualMover>(clock_.get(), settings.link_bytes_per_s);
    mover_ = mover.get();
    parts.mover = std::move(mover);
    parts.total = settings.device;
    parts.reserve = settings.reserve;
    auto core = Core::Open(options, std::move(parts));
    if (!core) throw std::runtime_error(core.error().message);
    core_ = std::move(*core);
    if (settings.graph) core_->Attach(graph_, {});
  }
  ~VirtualMachine() {
    while (mover_->next()) Arrive();
    (void)core_->Close();
  }
  VirtualMachine(const VirtualMachine&) = delete;
  VirtualMachine& operator=(const VirtualMachine&) = delete;

  // A value of so many bytes, on the host or on the device.
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
  // Reads it on the device; how long that had to wait. Empty: not to be had.
  std::optional<Duration> Get(std::string_view key) {
    const TimePoint begun = now();
    Wanted wanted;
    wanted.key = key;
    wanted.hash = core_->engine().store().index().HashOf(key);
    wanted.where = Place::kDevice;
    // NOLINTNEXTLINE(performance-unnecessary-value-param): as Waiter has it.
    wanted.done = [](Waiter* self, Slot* leased, Status status) {
      auto* const waiter = static_cast<Wanted*>(self);
      waiter->leased = leased;
      waiter->answered = true;
      waiter->ok = status.has_value();
    };
    RunOn(core_->strand(), [&] { core_->engine().Fetch(&wanted, now()); });
    while (!wanted.answered) {
      if (!mover_->next()) throw std::runtime_error("a read waits for nothing");
      Arrive();
    }
    if (wanted.leased == nullptr) return std::nullopt;
    core_->Touch(key);
    core_->Release(wanted.leased);
    return now() - begun;
  }
  // Time passes; what is under way arrives meanwhile.
  void Work(Duration time) {
    const TimePoint until = now() + time;
    while (mover_->next() && *mover_->next() <= until) Arrive();
    clock_->Set(until);
  }

  // On the device, backed, and so is everybody who has to leave before.
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
      if (!on_device(slot) || slots.record(slot).backed_in(TierId::kDevice)) continue;
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

  // What others have of the device from now on. Tend senses it.
  void Others(Bytes bytes) { others_ = bytes; }
  Bytes free() {
    const Bytes held = core_->engine().store().held(TierId::kDevice);
    const Bytes all = core_->engine().store().capacity(TierId::kDevice);
    return all - std::min(all, others_.value_or(0) + held);
  }

  // The same, with the work of quiet times every ten milliseconds.
  void Tend(Duration time) {
    constexpr Duration kEvery = std::chrono::milliseconds(10);
    for (const TimePoint until = now() + time; now() < until;) {
      if (others_) {
        const Bytes all = core_->engine().store().capacity(TierId::kDevice);
        core_->Apply(1.0 - static_cast<double>(free()) / static_cast<double>(all));
      }
      RunOn(core_->strand(), [&] { core_->engine().Tend(now()); });
      Work(kEvery);
    }
  }

  TimePoint now() const { return clock_->Now(); }
  StepGraph& graph() { return *graph_; }
  Core& core() { return *core_; }
  Bytes moved() const { return mover_->moved; }
  Stats stats() { return core_->stats(); }

 private:
  struct Wanted : Waiter {
    Slot* leased = nullptr;
    bool answered = false;
    bool ok = false;
  };
  void Arrive() {
    clock_->Set(*mover_->next());
    core_->strand().Post(mover_->TakeNext());
  }

  const std::shared_ptr<ManualClock> clock_;
  const std::shared_ptr<StepGraph> graph_;
  VirtualMover* mover_ = nullptr;
  std::shared_ptr<Core> core_;
  std::optional<Bytes> others_;
};

}  // namespace spillway::testing
