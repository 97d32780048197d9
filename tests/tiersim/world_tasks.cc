// SPDX-License-Identifier: Apache-2.0
// Runs pending work: tasks of the strand, copies of the executor, transfers.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"
#include "tiersim/world_parts.h"

namespace spillway::tiersim {

void World::Posted(Strand::Task* task) {
  const bool waits = waiting_now_ || (copying_ != nullptr && task != copying_);
  if (!on_strand_ && waits) {
    RunOnStrand(task);
    // Closing waits for transfers in real time: they end at once.
    if (closing_) RunAllTransfers();
    return;
  }
  Pending pending{.kind = Pending::Kind::kTask, .task = task};
  if (under_way_.contains(static_cast<const Transfer*>(task))) pending.kind = Pending::Kind::kMove;
  if (closing_ && pending.kind == Pending::Kind::kMove) {
    under_way_.erase(static_cast<const Transfer*>(task));
    return RunOnStrand(task);
  }
  if (submitting_ != nullptr) tasks_[task] = submitting_;
  pending_.push_back(std::move(pending));
}

void World::RunOnStrand(Strand::Task* task) {
  const OnStrand here(this);
  const auto found = tasks_.find(task);
  Flight* const before = std::exchange(running_, found == tasks_.end() ? nullptr : found->second);
  if (options_.verbose && running_ != nullptr) {
    fmt::print("{} at {} ms: task of {} '{}' {}\n", verdict_.event,
               now().time_since_epoch().count() / 1000000,
               static_cast<int>(running_->operation.kind), Printable(ledger_.key(running_->key)),
               running_->set);
  }
  task->run(task);
  SeeWritten();
  running_ = before;
  if (loading_ && core_ != nullptr && !dead_) SeeAdopted();
}

void World::RunPending(std::size_t at) {
  Pending pending = std::move(pending_[at]);
  if (at + 1 < pending_.size()) pending_[at] = std::move(pending_.back());
  pending_.pop_back();
  switch (pending.kind) {
    case Pending::Kind::kTask:
      return RunOnStrand(pending.task);
    case Pending::Kind::kMove: {
      const auto* const transfer = static_cast<const Transfer*>(pending.task);
      if (options_.verbose) {
        fmt::print("{} at {} ms: ends '{}' {} to {}: {}\n", verdict_.event,
                   now().time_since_epoch().count() / 1000000, Printable(transfer->facts.key),
                   Name(transfer->from), Name(transfer->to),
                   transfer->status ? "well" : transfer->status.error().message);
      }
      if (!transfer->status && transfer->status.error().code != Code::kCancelled) {
        failed_at_[IndexOf(transfer->to)] = now();
      }
      under_way_.erase(transfer);
      no_set_ = true;
      RunOnStrand(pending.task);
      no_set_ = false;
      return;
    }
    case Pending::Kind::kCopy:
      copying_ = pending.task;
      pending.task->run(pending.task);
      copying_ = nullptr;
      return;
    case Pending::Kind::kPass: {
      if (dead_) return;
      {
        const OnStrand here(this);
        no_set_ = true;
        pending.pass->Step();
        no_set_ = false;
      }
      if (options_.verbose) {
        fmt::print("{} at {} ms: pass, progress {}, next {}\n", verdict_.event,
                   now().time_since_epoch().count() / 1000000,
                   static_cast<int>(pending.pass->progress()),
                   static_cast<int>(pending.pass->next()));
      }
      if (pending.pass->next() != Core::PassSteps::Next::kNothing) {
        pending_.push_back(std::move(pending));
      }
      return;
    }
  }
}

// Whether the present operation has been carried out: its answer may come later.
void World::SeeWritten() {
  if (running_ == nullptr || dead_ || verdict_.failed()) return;
  Flight& flight = *running_;
  if (flight.operation.kind == Operation::Kind::kErase && !flight.committed) {
    flight.committed = true;
    touched_.insert(flight.key);
    if (ledger_.current(flight.key) != 0) {
      Fail(sim::kValues, fmt::format("'{}' was erased ({}), and nothing told that set {} has gone",
                                     ledger_.key(flight.key),
                                     flight.operation.found          ? "found"
                                     : SlotOf(flight.key) == kNoSlot ? "gone"
                                                                     : "there",
                                     ledger_.current(flight.key)));
    }
  }
  if (flight.operation.kind != Operation::Kind::kSet || flight.committed) return;
  const std::uint32_t slot = SlotOf(flight.key);
  if (slot == kNoSlot) return;
  const Record& record = store().slots().record(slot);
  if (record.extra == nullptr || record.extra->meta != flight.meta) return;
  flight.committed = true;
  touched_.insert(flight.key);
  if (const SetNo before = ledger_.current(flight.key); before != 0) {
    return Fail(sim::kValues, fmt::format("'{}' was set anew, and nothing told that set {} was "
                                          "replaced",
                                          ledger_.key(flight.key), before));
  }
  if (now() > flight.deadline) {
    Fail(sim::kAllOrNothing,
         fmt::format("set '{}' was committed after its time", ledger_.key(flight.key)));
  }
  ledger_.at(flight.set).deadline = engine().DeadlineOf(slot);
  ledger_.Enter(flight.set, record.generation, slot, now());
}

// --- moves ---

void World::StartMove(Transfer* transfer) {
  for (const Transfer* other : under_way_) {
    if (other->owner == transfer->owner && other->id == transfer->id) {
      Fail(sim::kAllOrNothing,
           fmt::format("two moves of '{}' at once", Printable(transfer->facts.key)));
    }
  }
  Level level = transfer->staging ? Level::kRelaxed : engine().level(transfer->to);
  // A level that stands for want of room below keeps no entry from coming up.
  if (!transfer->staging && transfer->to < transfer->from && level < Level::kEmergency &&
      engine().stands_for_want_of_room(transfer->to)) {
    level = Level::kRelaxed;
  }
  if (transfer->to > transfer->from
          ? level == Level::kEmergency
          : transfer->to != transfer->from && !transfer->staging && level >= Level::kCritical) {
    Fail(sim::kLevelAndRefusal,
         fmt::format("'{}' is on its way to the {} tier, which is {}",
                     Printable(transfer->facts.key), Name(transfer->to), Name(level)));
  }
  ++waiting_[IndexOf(transfer->from) * kTiers + IndexOf(transfer->to)];
  under_way_.insert(transfer);
  TimePoint ready = now();
  const bool disk = transfer->from == TierId::kDisk || transfer->to == TierId::kDisk;
  if (!calm_ && rng_.Percent(plan_.slow_percent))
    ready += plan_.tick * static_cast<std::int64_t>(rng_.LogBetween(1, 400));
  if (disk && slow_until_ >= verdict_.event) ready += plan_.tick * 1000;
  transfers_.push_back({transfer, ready});
}

void World::RunTransferAt(std::size_t at, bool faults) {
  Transfer* const transfer = TakeMove(at);
  if (faults && rng_.Percent(plan_.fail_percent)) {
    transfer->status = Error{Code::kUnavailable, "the simulated mover was told to fail"};
    return Posted(transfer);
  }
  if (IsBatched(*transfer) && rng_.OneIn(2)) return RunBatchWith(transfer);
  WatchedTier* const to = transfer->to == TierId::kDisk ? nullptr : memory_[IndexOf(transfer->to)];
  const bool tear = faults && to != nullptr && !transfer->staging &&
                    transfer->from != TierId::kDisk && rng_.Percent(plan_.tear_percent);
  if (tear) to->DamageNext(rng_.Next());
  // A transfer thread may have checked just before it was cancelled, and continue.
  const bool called_off = transfer->cancelled.load();
  if (called_off && faults && rng_.OneIn(2)) transfer->cancelled.store(false);
  RunTransfer(ways_, transfer);
  if (called_off) transfer->cancelled.store(true);
  if (tear) to->DamageNothing();
  Carried(transfer);
}

Transfer* World::TakeMove(std::size_t at) {
  Transfer* const transfer = transfers_[at].move;
  transfers_.erase(transfers_.begin() + static_cast<std::ptrdiff_t>(at));
  --waiting_[IndexOf(transfer->from) * kTiers + IndexOf(transfer->to)];
  return transfer;
}

// Together with all others of its kind that are queued.
void World::RunBatchWith(Transfer* first) {
  std::vector<Transfer*> batch{first};
  for (std::size_t at = 0; at < transfers_.size();) {
    const bool also = IsBatched(*transfers_[at].move) && transfers_[at].ready <= now();
    also ? batch.push_back(TakeMove(at)) : void(++at);
  }
  RunTransferBatch(ways_, batch);
  for (Transfer* const transfer : batch) Carried(transfer);
}

void World::Carried(Transfer* transfer) {
  if (!dead_ && disk_ != nullptr && !transfer->status && transfer->to == TierId::kDisk &&
      transfer->status.error().code != Code::kCancelled) {
    disk_trouble_ = true;
  }
  Posted(transfer);
}

void World::RunAllTransfers() {
  while (!transfers_.empty()) RunTransferAt(0, false);
}

void World::RunSomething() {
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < transfers_.size(); ++i) {
    if (transfers_[i].ready <= now()) ready.push_back(i);
  }
  const std::size_t waits = pending_.size() + ready.size();
  if (waits == 0) return;
  const std::size_t at = rng_.Below(waits);
  at < pending_.size() ? RunPending(at) : RunTransferAt(ready[at - pending_.size()], true);
}

// Until nothing is pending; slow transfers get their time.
void World::Settle() {
  std::uint64_t most = 2000 + 200 * (ledger_.live() + flights_.size() + pending_.size());
  while ((!pending_.empty() || !transfers_.empty()) && (dead_ || !verdict_.failed())) {
    if (most-- == 0) {
      dead_ = false;
      return Fail(sim::kLiveness, fmt::format("{} tasks and {} moves never end", pending_.size(),
                                              transfers_.size()));
    }
    if (!pending_.empty()) {
      RunPending(rng_.Below(pending_.size()));
    } else {
      const std::size_t at = rng_.Below(transfers_.size());
      if (!dead_) clock_->Set(transfers_[at].ready);
      RunTransferAt(at, false);
    }
    if (dead_) continue;
    ++verdict_.event;
    AfterEvent();
  }
}

void World::CheckNotMoving(const std::byte* block, BlobId blob) {
  if (dead_) return;
  for (const PendingTransfer& pending : transfers_) {
    const Transfer& transfer = *pending.move;
    if (transfer.bytes == 0 && blob == kNoBlob) continue;  // No bytes are anywhere.
    const bool is =
        blob != kNoBlob
            ? blob == (transfer.from == TierId::kDisk ? transfer.blob : transfer.destination.blob)
            : block == transfer.source || block == transfer.destination.block;
    if (is &&
        !(blob != kNoBlob && transfer.from != TierId::kDisk && transfer.to != TierId::kDisk)) {
      Fail(sim::kOneOwner,
           fmt::format("{} of '{}' was given back while a move from {} to {} is "
                       "under way on it",
                       blob != kNoBlob ? "the blob" : "memory", Printable(transfer.facts.key),
                       Name(transfer.from), Name(transfer.to)));
    }
  }
}

// An entry that is adopted may have to be evicted at once: then it can't be found any
// more when that is announced.
void World::SeeAdoptedAndGone(const Event& event) {
  const auto found = found_.find(std::string(event.key));
  if (found == found_.end()) return;
  const KeyNo key = ledger_.NumberOf(event.key);
  const SlotTable& slots = store().slots();
  if (ledger_.current(key) != 0 || touched_.contains(key)) return;
  for (std::uint32_t slot = 0; slot < slots.high_water(); ++slot) {
    const Record& record = slots.record(slot);
    if (record.generation != event.generation || record.extra == nullptr ||
        record.extra->meta != std::to_string(found->second)) {
      continue;
    }
    ledger_.at(found->second).deadline = engine().DeadlineOf(slot);
    ledger_.Enter(found->second, record.generation, slot, now());
    found_.erase(found);
    return;
  }
}

// What was found on disk has been adopted, or not.
void World::SeeAdopted() {
  for (auto at = found_.begin(); at != found_.end();) {
    const KeyNo key = ledger_.NumberOf(at->first);
    const SetNo set = at->second;
    const std::uint32_t slot = ledger_.current(key) == 0 ? SlotOf(key) : kNoSlot;
    const Record* const record = slot == kNoSlot ? nullptr : &store().slots().record(slot);
    if (record == nullptr || record->extra == nullptr ||
        record->extra->meta != std::to_string(set)) {
      ++at;
      continue;
    }
    if (touched_.contains(key)) {
      return Fail(sim::kAfterCrash,
                  fmt::format("'{}' was set, erased or cleared, and then adopted as it was before",
                              at->first));
    }
    ledger_.at(set).deadline = engine().DeadlineOf(slot);
    ledger_.Enter(set, record->generation, slot, now());
    at = found_.erase(at);
  }
  Stats stats;
  engine().CountInto(&stats);
  if (stats.loading) return;
  loading_ = false;
  for (const auto& [key, set] : found_) {
    const KeyNo number = ledger_.NumberOf(key);
    if (!touched_.contains(number) && disk_->health() == BlobStore::Health::kGood) {
      Fail(sim::kAfterCrash, fmt::format("'{}' is on disk and was not adopted", key));
    }
  }
  found_.clear();
}

}  // namespace spillway::tiersim
