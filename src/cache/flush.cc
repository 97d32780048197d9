#include "cache/flush.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <new>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cache/core.h"

namespace spillway {

// On the strand, but for its making.
class Flusher {
 public:
  explicit Flusher(Engine* engine) : engine_(*engine), store_(engine->store()) {}

  bool has_disk() const { return store_.disk() != nullptr; }

  // Who is nowhere but in memory, most valuable first.
  void Begin() {
    std::vector<Wanted> all = Unwritten();
    const std::vector<std::string> leaving = engine_.LeavingOrder();
    std::unordered_map<std::string_view, std::size_t> worth;
    for (std::size_t i = 0; i < leaving.size(); ++i) worth.emplace(leaving[i], i + 1);
    for (Wanted& each : all) {
      const auto at = worth.find(store_.slots().slot(each.id.slot).key());
      if (at != worth.end()) each.worth = at->second;
    }
    // Of those of whom the order does not speak, the last used first.
    std::ranges::sort(all, [](const Wanted& a, const Wanted& b) {
      if (a.worth != b.worth) return a.worth > b.worth;
      return a.last_use != b.last_use ? a.last_use > b.last_use : a.id.slot < b.id.slot;
    });
    PutParentsFirst(all);
  }

  // Starts what there is room for. False: nothing is left to do or to wait for.
  bool Step(TimePoint now) {
    std::erase_if(under_way_, [&](EntryId id) { return !IsGoing(id); });
    while (under_way_.size() < kAtOnce && next_ < list_.size()) {
      const EntryId id = list_[next_];
      const Going going = Start(id, now);
      if (going == Going::kLater) break;
      ++next_;
      if (going == Going::kYes) under_way_.push_back(id);
    }
    return !under_way_.empty() || next_ < list_.size();
  }

  void Count(std::uint64_t* entries, Bytes* bytes) const {
    *entries = 0;
    *bytes = 0;
    for (const Wanted& each : Unwritten()) {
      ++*entries;
      *bytes += store_.slots().slot(each.id.slot).size;
    }
  }

 private:
  enum class Going : std::uint8_t { kYes, kNo, kLater };
  struct Wanted {
    EntryId id;
    std::int64_t last_use = 0;
    std::size_t worth = 0;  // Its place among those who leave, from the first on; 0: none.
  };
  static constexpr std::size_t kAtOnce = 32;

  std::vector<Wanted> Unwritten() const {
    std::vector<Wanted> all;
    for (std::uint32_t slot = 0; slot < store_.slots().high_water(); ++slot) {
      const EntryId id = store_.IdOf(slot);
      if (!store_.IsLive(id)) continue;
      const Record& record = store_.slots().record(slot);
      if (record.copies == 0 || Has(record.copies, TierId::kDisk)) continue;
      const TierId tier = Has(record.copies, TierId::kDevice) ? TierId::kDevice : TierId::kHost;
      all.push_back({id, KeyByLastUse(store_.FactsOf(slot, tier)), 0});
    }
    return all;
  }

  // A chain is of use as far as its first gap.
  void PutParentsFirst(const std::vector<Wanted>& all) {
    std::vector<bool> wanted(store_.slots().high_water());
    for (const Wanted& each : all) wanted[each.id.slot] = true;
    std::vector<std::uint32_t> chain;
    for (const Wanted& each : all) {
      for (std::uint32_t slot = each.id.slot; slot != kNoSlot && wanted[slot];
           slot = store_.ParentOf(slot)) {
        wanted[slot] = false;
        chain.push_back(slot);
      }
      for (; !chain.empty(); chain.pop_back()) list_.push_back(store_.IdOf(chain.back()));
    }
  }

  bool IsGoing(EntryId id) const {
    if (!store_.IsLive(id)) return false;
    const Below* const below = store_.slots().record(id.slot).below;
    return below != nullptr && below->transfer != nullptr;
  }

  Going Start(EntryId id, TimePoint now) {
    if (!store_.IsLive(id)) return Going::kNo;
    const Record& record = store_.slots().record(id.slot);
    if (record.copies == 0 || Has(record.copies, TierId::kDisk)) return Going::kNo;
    if (IsGoing(id)) {
      Move* const move = record.below->transfer;
      engine_.mover_->Raise(move, Priority::kGiveBack);
      if (move->to != TierId::kDisk) list_.push_back(id);  // And then there.
      return Going::kYes;
    }
    const TierId from = Has(record.copies, TierId::kHost) ? TierId::kHost : TierId::kDevice;
    if (from == TierId::kDevice && store_.on_gpu()) return ByWayOfHost(id, now);
    TierState& disk = engine_.state(TierId::kDisk);
    if (!engine_.MayTake(disk, id.slot, now)) return Going::kNo;
    // In free room only, as what is copied ahead: nobody on disk is destroyed for it.
    bool soon = false;
    const std::optional<Landing> landing =
        engine_.RoomBelow(disk, id.slot, {Reason::kIdle, Priority::kWriteBehind}, now, &soon);
    if (!landing) return Going::kNo;
    auto move = std::make_unique<Move>();
    move->from = from;
    move->to = TierId::kDisk;
    move->priority = Priority::kGiveBack;
    move->source = store_.BlockIn(id.slot, from);
    move->landing = *landing;
    move->reason = Reason::kIdle;
    return engine_.StartMove(std::move(move), id.slot) ? Going::kYes : Going::kNo;
  }

  // What only a GPU can read.
  Going ByWayOfHost(EntryId id, TimePoint now) {
    const Engine::Why why{Action::kBack, Reason::kIdle, {}};
    const Engine::Going going = engine_.SendDown(engine_.state(TierId::kDevice), id.slot, why,
                                                 Priority::kGiveBack, false, now);
    if (going == Engine::Going::kNowhere) return Going::kNo;
    if (going == Engine::Going::kFull) return Going::kLater;
    list_.push_back(id);  // From there on to disk.
    return Going::kYes;
  }

  Engine& engine_;
  Store& store_;
  std::vector<EntryId> list_;
  std::size_t next_ = 0;
  std::vector<EntryId> under_way_;
};

Flushed FlushToDisk(Cache* cache, Duration within) {
  Flushed flushed;
  Core* const core = Core::Of(*cache);
  Flusher flusher(&core->engine());
  std::uint64_t entries = 0;
  Bytes bytes = 0;
  try {
    if (!flusher.has_disk()) return flushed;
    RunOn(core->strand(), [&] {
      flusher.Count(&entries, &bytes);
      if (within > Duration::zero()) flusher.Begin();
    });
    const auto until = std::chrono::steady_clock::now() + within;  // real world: a disk is written
    bool more = within > Duration::zero();
    while (more && std::chrono::steady_clock::now() < until) {  // real world: as above
      RunOn(core->strand(), [&] { more = flusher.Step(core->clock().Now()); });
      if (more) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // real world: as above
    }
  } catch (const std::bad_alloc&) {
    // What was written is counted all the same.
  }
  RunOn(core->strand(), [&] { flusher.Count(&flushed.entries_left, &flushed.bytes_left); });
  flushed.entries = entries - std::min(entries, flushed.entries_left);
  flushed.bytes = bytes - std::min(bytes, flushed.bytes_left);
  return flushed;
}

}  // namespace spillway
