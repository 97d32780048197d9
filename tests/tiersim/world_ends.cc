// SPDX-License-Identifier: Apache-2.0
// Ends: the cache closes, the process dies, the power fails; and a calm phase at the
// end of the world.
#include <cerrno>

#include <fmt/format.h>

#include "cache/flush.h"
#include "tiersim/world_parts.h"

namespace spillway::tiersim {

void World::EndFaults() {
  faults_until_ = slow_until_ = unknown_until_ = 0;
  files_->Heal();
  files_->FlipNothing();
  for (WatchedTier* tier : memory_) {
    if (tier != nullptr && core_ != nullptr) tier->seen().RefuseNext(0);
  }
}

// Every waiting operation gets an answer: pending tasks run, and the rest time out. In
// a dead world nothing is checked.
void World::EndFlights() {
  if (core_ == nullptr) return;
  std::erase_if(pending_, [](const Pending& pending) { return pending.pass != nullptr; });
  for (int i = 0; i < 3; ++i) {
    Settle();
    if (!dead_) {
      TimePoint last = now();
      for (const auto& flight : flights_) last = std::max(last, flight->deadline);
      clock_->Set(last + plan_.tick);
      LookNow();
      continue;
    }
    const OnStrand here(this);
    engine().Tick(now() + std::chrono::hours(100000));
  }
  Settle();
  std::erase_if(flights_, [](const auto& flight) { return flight->done; });
  Settle();  // Leases may have gone with them.
}

void World::Calm() {
  EndFaults();
  calm_ = true;
  if (loading_) DiskBackground();
  Settle();
  std::erase_if(flights_, [](const auto& flight) { return flight->done; });
  if (verdict_.failed()) return;
  // Low pressure for the time of dwell makes any level RELAXED.
  const TimePoint begun = now();
  const Duration step =
      sampling_ ? plan_.options.sample_period
                : std::max<Duration>(std::chrono::milliseconds(1), plan_.options.dwell / 4);
  for (bool waited = false; !waited && !verdict_.failed(); clock_->Advance(step)) {
    waited = now() - begun >= plan_.options.dwell;
    for (const TierId tier : kTierIds) {
      if (plan_.Has(tier)) PushPass(tier, Core::SampleValue{0.0, plan_.tiers[IndexOf(tier)].total});
    }
    Settle();
  }
  for (const TierId tier : kTierIds) {
    if (plan_.Has(tier) && engine().level(tier) != Level::kRelaxed) {
      return Fail(sim::kLiveness,
                  fmt::format("pressure has been 0 for all of dwell, the {} tier is {}", Name(tier),
                              Name(engine().level(tier))));
    }
  }
  if (verdict_.failed()) return;
  std::erase_if(flights_, [](const auto& flight) { return flight->done; });
  if (engine().has_pending_sets()) {
    return Fail(sim::kLiveness, "a set waits for room, and nothing is under way");
  }
  if (!flights_.empty()) {
    return Fail(sim::kLiveness, fmt::format("{} operations wait for ever", flights_.size()));
  }
  Audit();
  while (!holdings_.empty() && !verdict_.failed()) ReleaseAt(holdings_.size() - 1);
  Settle();
  // Every entry that is there can be read.
  for (KeyNo key = 0; key < plan_.keys.size() && !verdict_.failed(); ++key) {
    LookIfOverdue(key);
    Flight& flight = NewFlight(key, Operation::Kind::kGet);
    flight.deadline = now() + plan_.tick * 1000;
    submitting_ = &flight;
    Batch::Submit(core_, &flight.operation, 1, plan_.tick * 1000,
                  Completion([&flight] { flight.world->Completed(flight); }));
    submitting_ = nullptr;
    Settle();
    std::erase_if(flights_, [](const auto& one) { return one->done; });
    if (!flights_.empty() && !verdict_.failed()) {
      return Fail(sim::kLiveness, fmt::format("get '{}' is never answered", ledger_.key(key)));
    }
    while (!holdings_.empty() && !verdict_.failed()) ReleaseAt(holdings_.size() - 1);
  }
  if (verdict_.failed()) return;
  if (sampling_) StartStop();
  DoClear();
  Settle();
  LookNow();
  Settle();
  if (!verdict_.failed()) CheckEmpty("after clear");
}

// --- the disk, by itself ---

World::Listing World::ListDisk() {
  Listing listing;
  auto opened = DiskStore::Open(OptionsOfDisk());
  if (!opened) {
    Fail(sim::kAfterCrash, "the disk does not open: " + opened.error().message);
    return listing;
  }
  bool finished = false;
  (*opened)->StartLoading([&](const std::vector<BlobStore::Found>& found, bool done) {
    for (const BlobStore::Found& blob : found) {
      const SetNo set = std::strtoull(blob.facts.meta.c_str(), nullptr, 10);
      const KeyNo key = ledger_.NumberOf(blob.facts.key);
      if (!ledger_.Knows(set) || key == kNoKey || ledger_.at(set).key != key ||
          ledger_.at(set).size != blob.facts.size || ledger_.at(set).tokens != blob.facts.tokens) {
        Fail(sim::kAfterCrash,
             fmt::format("the disk has '{}', which nobody set so", blob.facts.key));
      }
      listed_deadlines_[set] = blob.facts.expires_unix_ns
                                   ? TimePoint(Duration(*blob.facts.expires_unix_ns))
                                   : TimePoint::max();
      if (!listing.emplace(blob.facts.key, set).second) {
        Fail(sim::kAfterCrash, fmt::format("the disk has '{}' twice", blob.facts.key));
      }
    }
    finished = done;
  });
  (*opened)->RunBackground();
  if (!finished) Fail(sim::kLiveness, "loading does not end");
  return listing;
}

void World::JudgeDeadline(SetNo set) {
  const SetInfo& info = ledger_.at(set);
  const TimePoint found = listed_deadlines_.at(set);
  const std::vector<TimePoint>& may = info.deadlines;
  if (may.empty() || std::find(may.begin(), may.end(), found) != may.end()) return;
  Fail(sim::kAfterCrash,
       fmt::format("'{}', set {}, came back with a deadline of {} ms, and the last that was "
                   "settled was {} ms",
                   ledger_.key(info.key), set, found.time_since_epoch().count() / 1000000,
                   may.front().time_since_epoch().count() / 1000000));
}

// Some of the journal, as a clean close has left it, is damaged; mostly the same
// sectors of the mirror, too. Then lost records may lose others, but bring nothing
// back. Not the last page: if both copies end in unreadable bytes, that looks like a
// kill.
void World::RotJournal(std::set<SetNo>* required) {
  constexpr Bytes kSector = 512;
  std::string journal;
  std::uint64_t newest = 0;
  const std::string begin = "/disk/store/journal-";
  for (const std::string& name : memory_files_->Names()) {
    if (!name.starts_with(begin)) continue;
    const std::uint64_t number = std::strtoull(name.c_str() + begin.size(), nullptr, 10);
    if (number < newest) continue;
    newest = number;
    journal = name;
  }
  const Bytes size = memory_files_->Content(journal).size();
  if (size < Plan::kPage + 2 * kSector) return;
  const Bytes sectors = (size - Plan::kPage) / kSector;
  const Bytes at = rng_.Between(1, sectors - 1) * kSector;
  const Bytes bytes = std::min(sectors * kSector - at, rng_.LogBetween(1, 16) * kSector);
  const bool both = !rng_.OneIn(4);
  for (const std::string& name : {journal, fmt::format("/disk/store/mirror-{}", newest)}) {
    std::vector<std::byte> content = memory_files_->Content(name);
    if (content.size() < at + bytes) continue;
    std::fill_n(content.begin() + static_cast<std::ptrdiff_t>(at), bytes, std::byte{0});
    memory_files_->SetContent(name, content);
    if (!both) return;
    required->clear();
  }
}

// `known`: what was there at a clean end; `required`: all that must be there.
void World::Reopen(bool clean, bool power, const std::set<SetNo>& known,
                   const std::set<SetNo>& required) {
  found_.clear();
  if (plan_.Has(TierId::kDisk)) {
    found_ = ListDisk();
    if (ListDisk() != found_)
      Fail(sim::kAfterCrash, "opened twice, the disk has two different things");
    std::set<SetNo> there;
    for (const auto& [key, set] : found_) {
      there.insert(set);
      SetInfo& info = ledger_.at(set);
      // Freed, and synced since: it must not come back.
      if (info.freed_epoch < epoch_ && !journal_trouble_) {
        Fail(
            sim::kAfterCrash,
            fmt::format("'{}' came back as set {}, which had gone before the last sync", key, set));
      }
      if (info.ended_for_good && !power && !journal_trouble_ && !disk_trouble_) {
        Fail(sim::kAfterCrash,
             fmt::format("'{}' came back as set {}, which was set anew or erased, and that was "
                         "answered",
                         key, set));
      }
      if (!power && !journal_trouble_ && !disk_trouble_) JudgeDeadline(set);
      info.deadlines = {listed_deadlines_.at(set)};  // Whatever it was: this is settled.
      if (clean && !known.contains(set) && !journal_trouble_ && !disk_trouble_) {
        Fail(sim::kAfterCrash,
             fmt::format("'{}' came back as set {}, which was not there when the cache was closed",
                         key, set));
      }
    }
    for (const SetNo set : required) {
      const std::string& key = ledger_.key(ledger_.at(set).key);
      const auto found = found_.find(key);
      // A set without an answer may have come before or after.
      const bool newer = found != found_.end() && !ledger_.at(found->second).answered;
      if (!there.contains(set) && !newer) {
        Fail(sim::kAfterCrash,
             fmt::format("'{}', set {}, was on disk for good and did not come back", key, set));
      }
    }
    // A set that is not there now never is again.
    for (SetNo set = 1; ledger_.Knows(set); ++set) {
      SetInfo& info = ledger_.at(set);
      info.synced = there.contains(set);
      info.ended_for_good = info.ended_for_good && !there.contains(set);
      info.freed_epoch = there.contains(set) ? ~std::uint64_t{0} : 0;
    }
  }
  if (verdict_.failed()) return;
  Open();
  epoch_ = 1;  // Nothing removed before may come back.
}

// --- ends ---

// As a daemon that is told to stop: entries that only memory holds are written to disk
// first. At the beginning the disk tier takes nothing, as if it were busy.
void World::FlushFirst() {
  Core::SampleValue busy;  // Unknown, or EMERGENCY.
  if (rng_.OneIn(2)) busy = {0.99, plan_.tiers[IndexOf(TierId::kDisk)].total};
  PushPass(TierId::kDisk, busy);
  Settle();
  FlushOptions options;
  options.within = std::chrono::hours(1);
  options.report_every = std::chrono::minutes(1);
  options.now = [this] { return now(); };
  options.stop = [this] { return verdict_.failed(); };
  int looks = 0;
  options.wait = [&](Duration by) {
    waiting_now_ = false;
    clock_->Advance(std::max(by, plan_.options.dwell / 4 + plan_.tick));
    if (++looks > 3) {
      for (const TierId tier : kTierIds) {
        if (plan_.Has(tier)) {
          PushPass(tier, Core::SampleValue{0.0, plan_.tiers[IndexOf(tier)].total});
        }
      }
    }
    Settle();
    waiting_now_ = true;
  };
  Flushed flushed;
  {
    const Waiting waiting(this);
    flushed = FlushToDisk(core_.get(), options);
  }
  Settle();
  const std::uint64_t explained = flushed.no_room.entries + flushed.failed.entries;
  if (!verdict_.failed() && flushed.entries_left > explained) {
    Fail(sim::kLiveness,
         fmt::format("{} entries were left by the flush for want of time, though the disk tier "
                     "took entries again ({})",
                     flushed.entries_left - explained, flushed.why_busy));
  }
}

// The cache is closed while leases are open, and opened again.
void World::Restart() {
  EndFaults();
  if (sampling_) StartStop();
  EndFlights();
  if (verdict_.failed()) return;
  if (!flights_.empty()) return Fail(sim::kLiveness, "operations wait for ever");
  if (disk_ != nullptr && !loading_ && rng_.OneIn(2)) FlushFirst();
  if (verdict_.failed()) return;
  std::set<SetNo> required;
  for (KeyNo key = 0; key < plan_.keys.size() && disk_ != nullptr; ++key) {
    const SetNo set = ledger_.current(key);
    if (set != 0 && Has(store().slots().record(ledger_.at(set).slot).copies, TierId::kDisk)) {
      required.insert(set);
    }
  }
  const bool healthy = disk_ != nullptr && !disk_trouble_ && !loading_ &&
                       disk_->health() == BlobStore::Health::kGood;
  if (loading_ || !healthy) required.clear();
  if (!healthy) disk_trouble_ = true;
  const bool was_loading = loading_;
  loading_ = false;
  dead_ = true;  // Events are ignored from now on.
  {
    const Waiting waiting(this);
    closing_ = true;
    (void)core_->Close();
    closing_ = false;
  }
  dead_ = false;
  std::weak_ptr<Core> last = core_;
  core_.reset();
  memory_ = {};
  disk_ = nullptr;
  const bool read = std::any_of(holdings_.begin(), holdings_.end(),
                                [&](const Holding& holding) { return holding.life == life_; });
  for (const Holding& holding : holdings_) CheckLease(holding.lease, holding.set, "after close");
  if (last.expired() == read && pending_.empty()) {
    return Fail(sim::kLeases, fmt::format("the cache was closed with {} leases, and {}",
                                          holdings_.size(), last.expired() ? "is gone" : "stays"));
  }
  if (files_->open_files() != 0) return Fail(sim::kOneOwner, "a closed cache keeps files open");
  ledger_.EndAll(verdict_.event);
  if (was_loading) disk_trouble_ = true;
  // From a generator of its own, so that other worlds do not change.
  const bool rots = sim::Mix(verdict_.event) % 4 != 0;
  std::set<SetNo> stay = required;
  if (rots && healthy && !was_loading) RotJournal(&stay);
  Reopen(true, false, required, stay);
}

// The process dies, or the machine loses power: nothing is closed, and no more bytes
// reach a file.
void World::Crash(bool power) {
  std::set<SetNo> required;
  for (KeyNo key = 0; key < plan_.keys.size() && disk_ != nullptr; ++key) {
    const SetNo set = ledger_.current(key);
    if (set == 0 || !ledger_.at(set).synced) continue;
    if (Has(store().slots().record(ledger_.at(set).slot).copies, TierId::kDisk))
      required.insert(set);
  }
  if (disk_trouble_ || loading_) required.clear();
  EndFaults();
  if (power) {
    memory_files_->Crash(rng_.Next());
    damaged_ = true;  // Bytes that were not synced may be torn.
  }
  files_->SetScript([](testing::FileCall, std::uint64_t, int) { return EIO; });
  dead_ = true;
  holdings_.clear();
  EndFlights();
  if (!flights_.empty()) {
    dead_ = false;
    return Fail(sim::kLiveness, "operations wait for ever");
  }
  std::weak_ptr<Core> last = core_;
  core_.reset();
  if (!last.expired()) verdict_.Fail(sim::kLiveness, "a cache without leases does not end");
  dead_ = false;
  if (!pending_.empty() || !transfers_.empty() || !under_way_.empty()) {
    return Fail(sim::kLiveness,
                fmt::format("{} tasks and {} moves of a cache that has gone are under way",
                            pending_.size(), transfers_.size()));
  }
  memory_ = {};
  disk_ = nullptr;
  files_->Heal();
  ledger_.EndAll(verdict_.event);
  loading_ = false;
  Reopen(false, power, {}, required);
}

// The cache is destroyed while leases are open: leased bytes stay readable, and the
// last release frees everything.
void World::CloseDown() {
  for (int i = 0; i < 4; ++i) DoSet();
  Settle();
  DoGetNow();
  DoGetNow();
  Settle();
  if (verdict_.failed()) return;
  dead_ = true;
  {
    const Waiting waiting(this);
    closing_ = true;
    (void)core_->Close();
    closing_ = false;
  }
  dead_ = false;
  std::weak_ptr<Core> last = core_;
  core_.reset();
  memory_ = {};
  disk_ = nullptr;
  for (const Holding& holding : holdings_) CheckLease(holding.lease, holding.set, "after close");
  if (verdict_.failed()) return;
  dead_ = true;
  holdings_.clear();
  while (!pending_.empty()) {
    const std::shared_ptr<Core> running = last.lock();
    RunPending(0);
  }
  dead_ = false;
  if (!last.expired()) Fail(sim::kLiveness, "a closed cache without leases does not end");
  if (files_->open_files() != 0) Fail(sim::kOneOwner, "a closed cache keeps files open");
}

}  // namespace spillway::tiersim
