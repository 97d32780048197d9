// SPDX-License-Identifier: Apache-2.0
#include "serversim/pool.h"

#include <algorithm>
#include <utility>

namespace spillway::serversim {

class Pool::SimStrand final : public Strand {
 public:
  explicit SimStrand(Pool* pool) : pool_(pool) {}
  void Post(Task* task) override { pool_->Posted(task); }

 private:
  Pool* const pool_;
};

class Pool::SimExecutor final : public Executor {
 public:
  explicit SimExecutor(Pool* pool) : pool_(pool) {}
  void Run(Strand::Task* task) override {
    pool_->pending_.push_back({.task = task, .on_strand = false, .since = pool_->clock_.Now()});
  }

 private:
  Pool* const pool_;
};

class Pool::SimTransferQueue final : public TransferQueue {
 public:
  explicit SimTransferQueue(Pool* pool) : pool_(pool) {}
  void Start(Transfer* transfer) override { pool_->StartMove(transfer); }
  void Raise(Transfer* transfer, Priority priority) override {
    for (const PendingTransfer& pending : pool_->transfers_) {
      if (pending.move == transfer) transfer->priority = priority;
    }
  }
  std::size_t Waiting(TierId from, TierId to) const override {
    return pool_->waiting_[IndexOf(from) * kTiers + IndexOf(to)];
  }

 private:
  Pool* const pool_;
};

std::unique_ptr<Strand> Pool::MakeStrand() { return std::make_unique<SimStrand>(this); }
std::unique_ptr<Executor> Pool::MakeExecutor() { return std::make_unique<SimExecutor>(this); }
std::unique_ptr<TransferQueue> Pool::MakeTransferQueue() {
  return std::make_unique<SimTransferQueue>(this);
}

void Pool::Serve(const TransferPaths& ways, std::array<tiersim::WatchedTier*, 2> memory) {
  ways_ = ways;
  memory_ = memory;
  waiting_ = {};
}

void Pool::Posted(Strand::Task* task) {
  if (!task->is_awaited || on_strand_) {
    pending_.push_back({.task = task, .since = clock_.Now()});
    return;
  }
  RunOnStrand(task);
  if (is_prompt && !draining_) static_cast<void>(Drain(false));
}

void Pool::RunOnStrand(Strand::Task* task) {
  on_strand_ = true;
  task->run(task);
  on_strand_ = false;
  if (after_event) after_event();
}

void Pool::Push(TierId tier, std::unique_ptr<Core::PassSteps> pass) {
  const bool busy = std::ranges::any_of(
      pending_, [&](const Pending& one) { return one.pass != nullptr && one.tier == tier; });
  if (busy) return;
  pending_.push_back({.pass = std::move(pass), .tier = tier, .since = clock_.Now()});
}

void Pool::DropPasses() {
  std::erase_if(pending_, [](const Pending& pending) { return pending.pass != nullptr; });
}

std::size_t Pool::ready() const {
  std::size_t count = pending_.size();
  for (const PendingTransfer& pending : transfers_) count += pending.ready <= clock_.Now() ? 1 : 0;
  return count;
}

std::optional<std::size_t> Pool::OverdueSince(TimePoint then) const {
  std::optional<std::size_t> first;
  TimePoint first_since = then;
  std::size_t at = 0;
  const auto see = [&](TimePoint since) {
    if (since < first_since) {
      first = at;
      first_since = since;
    }
    ++at;
  };
  for (const Pending& pending : pending_) see(pending.since);
  for (const PendingTransfer& pending : transfers_) {
    if (pending.ready <= clock_.Now()) see(pending.ready);
  }
  return first;
}

void Pool::RunReady(std::size_t at) {
  if (at < pending_.size()) return RunPending(at);
  at -= pending_.size();
  for (std::size_t i = 0; i < transfers_.size(); ++i) {
    if (transfers_[i].ready <= clock_.Now() && at-- == 0) return RunTransferAt(i);
  }
}

void Pool::RunPending(std::size_t at) {
  Pending pending = std::move(pending_[at]);
  if (at + 1 < pending_.size()) pending_[at] = std::move(pending_.back());
  pending_.pop_back();
  if (pending.pass != nullptr) {
    on_strand_ = true;
    pending.pass->Step();
    on_strand_ = false;
    if (after_event) after_event();
    const bool more = pending.pass->next() != Core::PassSteps::Next::kNothing;
    pending.since = clock_.Now();
    if (more) pending_.push_back(std::move(pending));
    return;
  }
  pending.on_strand ? RunOnStrand(pending.task) : pending.task->run(pending.task);
}

bool Pool::Drain(bool may_move_clock) {
  const bool before = std::exchange(draining_, true);
  std::uint64_t most = 100'000;
  while (!empty() && most > 0) {
    --most;
    if (!pending_.empty()) {
      RunPending(rng_.Below(pending_.size()));
      continue;
    }
    const std::size_t at = rng_.Below(transfers_.size());
    if (may_move_clock) clock_.Set(transfers_[at].ready);
    RunTransferAt(at);
  }
  draining_ = before;
  return most > 0;
}

// --- moves ---

void Pool::StartMove(Transfer* transfer) {
  for (const PendingTransfer& other : transfers_) {
    if (other.move->owner == transfer->owner && other.move->id == transfer->id) {
      verdict_.Fail(sim::kAllOrNothing, "two moves of one entry at once");
    }
  }
  ++waiting_[IndexOf(transfer->from) * kTiers + IndexOf(transfer->to)];
  TimePoint ready = clock_.Now();
  if (rng_.Percent(faults.slow_percent) && faults.slow_max > Duration::zero()) {
    ready += Duration(
        static_cast<std::int64_t>(rng_.Below(static_cast<std::uint64_t>(faults.slow_max.count()))));
  }
  if (transfer->from == TierId::kDisk || transfer->to == TierId::kDisk) ready += disk_delay;
  transfers_.push_back({transfer, ready});
}

Transfer* Pool::TakeMove(std::size_t at) {
  Transfer* const transfer = transfers_[at].move;
  transfers_.erase(transfers_.begin() + static_cast<std::ptrdiff_t>(at));
  --waiting_[IndexOf(transfer->from) * kTiers + IndexOf(transfer->to)];
  return transfer;
}

void Pool::RunTransferAt(std::size_t at) {
  Transfer* const transfer = TakeMove(at);
  if (rng_.Percent(faults.fail_percent)) {
    transfer->status = Error{Code::kUnavailable, "the simulated mover was told to fail"};
    return Carried(transfer);
  }
  if (IsBatched(*transfer) && rng_.OneIn(2)) return RunBatchWith(transfer);
  tiersim::WatchedTier* const to =
      transfer->to == TierId::kDisk ? nullptr : memory_[IndexOf(transfer->to)];
  const bool tear = to != nullptr && !transfer->staging && transfer->from != TierId::kDisk &&
                    rng_.Percent(faults.tear_percent);
  if (tear) to->DamageNext(rng_.Next());
  // A transfer thread may have started just before the transfer was cancelled, and go on.
  const bool called_off = transfer->cancelled.load();
  if (called_off && rng_.OneIn(2)) transfer->cancelled.store(false);
  RunTransfer(ways_, transfer);
  if (called_off) transfer->cancelled.store(true);
  if (tear) to->DamageNothing();
  Carried(transfer);
}

// With all others like it that are ready.
void Pool::RunBatchWith(Transfer* first) {
  std::vector<Transfer*> batch{first};
  for (std::size_t at = 0; at < transfers_.size();) {
    const bool also = IsBatched(*transfers_[at].move) && transfers_[at].ready <= clock_.Now();
    also ? batch.push_back(TakeMove(at)) : void(++at);
  }
  RunTransferBatch(ways_, batch);
  for (Transfer* const transfer : batch) Carried(transfer);
}

void Pool::Carried(Transfer* transfer) {
  const bool disk = transfer->from == TierId::kDisk || transfer->to == TierId::kDisk;
  const bool failed = !transfer->status && transfer->status.error().code != Code::kCancelled;
  if (disk && failed && disk_failed) disk_failed();
  Posted(transfer);
}

}  // namespace spillway::serversim
