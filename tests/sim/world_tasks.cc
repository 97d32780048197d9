// SPDX-License-Identifier: Apache-2.0
// Runs pending tasks.
#include <algorithm>

#include <fmt/format.h>

#include "base/printable.h"
#include "sim/world_strand.h"

namespace spillway::sim {

namespace {

Act ActOf(const Event& event) {
  switch (event.reason) {
    case Reason::kExpired:
      return Act::kExpired;
    case Reason::kIdle:
      return event.action == Action::kDemote ? Act::kMarked : Act::kIdle;
    case Reason::kHeavy:
      return Act::kHeavy;
    case Reason::kOrder:
      return Act::kOrder;
    case Reason::kRoom:
      return Act::kRoom;
    case Reason::kBudget:
      return Act::kBudget;
    case Reason::kReserve:
      return Act::kReserve;
    case Reason::kReplaced:
      return Act::kReplaced;
    default:
      return Act::kCount;  // Erased, cleared: counted as acts of clients.
  }
}

}  // namespace

void World::OnCacheEvent(const Event& event) {
  if (dead_) return;
  if (options_.verbose) {
    fmt::print("    {} '{}' {} ({}), {} bytes, {} tokens\n", Name(event.action),
               Printable(event.key), Name(event.reason), event.order, event.bytes, event.tokens);
  }
  Mark(event.generation);
  Mark(static_cast<std::uint64_t>(event.at.time_since_epoch().count()) ^
       (static_cast<std::uint64_t>(event.action) << 60 |
        static_cast<std::uint64_t>(event.reason) << 56 |
        static_cast<std::uint64_t>(event.level) << 52));
  Mark(event.bytes ^ static_cast<std::uint64_t>(event.tokens) << 32);
  ++events_heard_;
  ++heard_by_reason_[static_cast<std::size_t>(event.reason)];
  judge_->OnEvent(event);
  if (const sim::Act act = ActOf(event); act != Act::kCount) Note(act);
}

void World::Posted(Strand::Task* task) {
  if (inline_ == Inline::kLook && !dead_) {
    EndInlineLook(true);
    judge_->BeginLook(now());
    inline_look_ = true;
    return task->run(task);
  }
  if (inline_ != Inline::kNo) return task->run(task);

  Pending pending{.kind = Pending::Kind::kTask, .task = task};
  if (running_) {
    pending.flight = running_->first;
    pending.item = running_->second;
    ++running_posted_;
  } else if (submitting_) {
    Flight& flight = flights_[*submitting_];
    while (flight.begun < flight.items.size() && !flight.items[flight.begun].posts) ++flight.begun;
    if (flight.begun == flight.items.size()) {
      verdict_.Fail(kAllOrNothing, "an operation that is wrong in itself reached the strand");
      flight.begun = 0;
    }
    pending.flight = *submitting_;
    pending.item = flight.begun++;
  } else {
    pending.kind = Pending::Kind::kReap;
  }
  pending_.push_back(std::move(pending));
}

void World::EndInlineLook(bool more) {
  if (!inline_look_) return;
  inline_look_ = false;
  judge_->EndLook(more);
  Note(Act::kLook);
}

void World::RunPending(std::size_t at) {
  Pending pending = std::move(pending_[at]);
  if (at + 1 < pending_.size()) pending_[at] = std::move(pending_.back());
  pending_.pop_back();
  switch (pending.kind) {
    case Pending::Kind::kTask:
      return RunItem(pending);
    case Pending::Kind::kReap:
      if (!dead_) model_.Reap();
      pending.task->run(pending.task);
      return Note(Act::kReap);
    case Pending::Kind::kPass:
      return RunPass(std::move(pending));
    case Pending::Kind::kClear:
      if (dead_) return;
      judge_->BeginClear(now());
      {
        const Waiting waiting(this, Inline::kTold);
        core_->Clear();
      }
      judge_->EndClear();
      return Note(Act::kClear);
  }
}

void World::RunItem(const Pending& pending) {
  if (dead_) return pending.task->run(pending.task);
  Flight& flight = flights_[pending.flight];
  Item& item = flight.items[pending.item];
  Operation& operation = flight.operations[pending.item];
  running_.emplace(pending.flight, pending.item);
  running_posted_ = 0;
  const bool too_late = now() > flight.deadline;
  if (options_.verbose) {
    fmt::print("{} at {} ns: {} '{}' stage {}\n", verdict_.event, now().time_since_epoch().count(),
               operation.kind == Operation::Kind::kErase ? "erase" : "set",
               Printable(operation.key), static_cast<int>(item.stage));
  }
  if (operation.kind == Operation::Kind::kErase) {
    judge_->BeginErase(item.key, now());
    pending.task->run(pending.task);
    judge_->EndErase(operation.found);
    Note(Act::kErase);
    item.stage = Item::Stage::kEnded;
  } else if (item.stage == Item::Stage::kBegun) {
    judge_->BeginAdmit(item.newcomer, too_late, now());
    pending.task->run(pending.task);
    const bool goes_on = running_posted_ > 0;
    if (goes_on && !operation.status) verdict_.Fail(kAllOrNothing, "a refused set goes on");
    if (!goes_on && operation.status) verdict_.Fail(kLiveness, "an admitted set does not go on");
    item.reservation = judge_->EndAdmit(operation.status);
    item.stage = goes_on ? Item::Stage::kAdmitted : Item::Stage::kEnded;
    Note(goes_on ? Act::kAdmitted : too_late ? Act::kCancelled : Act::kRefused);
    if (!operation.status) Mark(static_cast<std::uint64_t>(operation.status.error().code));
  } else if (item.stage == Item::Stage::kAdmitted) {
    pending.task->run(pending.task);
    item.stage = Item::Stage::kCopied;
  } else {
    judge_->BeginCommit(item.reservation, too_late, now());
    pending.task->run(pending.task);
    judge_->EndCommit(operation.status);
    Note(too_late ? Act::kCancelled : Act::kCommit);
    item.stage = Item::Stage::kEnded;
  }
  running_.reset();
  CheckEnded(pending.flight);
}

// A batch completes exactly once, at the moment its last operation has ended.
void World::CheckEnded(std::size_t at) {
  const Flight& flight = flights_[at];
  const bool ended = std::ranges::all_of(
      flight.items, [](const Item& item) { return item.stage == Item::Stage::kEnded; });
  if (flight.completions != (ended ? 1 : 0)) {
    verdict_.Fail(
        kLiveness,
        fmt::format("a batch of {} operations, {}, completed {} times", flight.items.size(),
                    ended ? "all of them ended" : "not all ended", flight.completions));
  }
}

void World::EndFlight(Flight& flight) {
  if (!flight.in_use) return;
  if (flight.hurried) --flights_hurried_;
  --flights_in_use_;
  flight.in_use = false;
  flight.operations.clear();
}

void World::RunPass(Pending pending) {
  if (dead_) return;
  Core::PassSteps& pass = *pending.pass;
  const std::uint64_t told = pending.left ? pending.left->size() : 0;
  const std::uint64_t heard = events_heard_;
  if (pass.next() == Core::PassSteps::Next::kTick) {
    judge_->BeginLook(now());
    pass.Step();
    const bool more = pass.next() == Core::PassSteps::Next::kTick;
    judge_->EndLook(more);
    Note(Act::kLook);
    if (!more && pending.sample) {
      judge_->Sampled(pending.sample->pressure, pending.sample->total, now());
      Note(Act::kSample);
    }
  } else {
    judge_->BeginRelief(now(), false);
    pass.Step();
    judge_->EndRelief(pass.progress());
    Note(Act::kRelief);
  }
  if (pending.left && pending.left->size() - told != events_heard_ - heard) {
    verdict_.Fail(kValues, "a pass returns other departures than were logged");
  }
  if (options_.verbose) {
    fmt::print("{} at {} ns: pass, level {}, pressure {}\n", verdict_.event,
               now().time_since_epoch().count(), Name(core_->engine().level()),
               core_->engine().pressure().value_or(-1));
  }
  if (pass.next() != Core::PassSteps::Next::kNothing) {
    pending_.push_back(std::move(pending));
  } else if (pending.from_sampler) {
    sampler_busy_ = false;
    next_reading_ = now() + plan_.options.sample_period;
  }
}

void World::Drain() {
  // Every task leads to at most two more; a pass takes about as many steps as there are
  // entries.
  std::uint64_t most = 1000 + 10 * pending_.size() + 20 * (model_.live().size() + pending_.size());
  while (!pending_.empty() && (dead_ || !verdict_.failed())) {
    if (most-- == 0)
      return verdict_.Fail(kLiveness, fmt::format("{} tasks never end", pending_.size()));
    RunPending(rng_.Below(pending_.size()));
    if (dead_) continue;
    ++verdict_.event;
    AfterEvent();
  }
}

}  // namespace spillway::sim
