// SPDX-License-Identifier: Apache-2.0
#include "cache/batch.h"

#include <algorithm>
#include <new>

#include <fmt/format.h>

#include "base/mutant.h"
#include "base/printable.h"
#include "base/saturating_add.h"

namespace spillway {

template <typename Work>
void Batch::Guarded(Item* item, Work&& work) {
  try {
    work();
  } catch (const std::bad_alloc&) {
    item->batch->Finish(item, Error{Code::kNoMemory, "no memory"});
  }
}

void Batch::Submit(std::shared_ptr<Core> core, Operation* operations, std::size_t count,
                   Duration within, Completion done, std::optional<TimePoint> ttl_from) {
  std::unique_ptr<Batch> whole = Make(std::move(core), count, within);
  if (whole == nullptr) {
    for (std::size_t i = 0; i < count; ++i) {
      operations[i].status = Error{Code::kNoMemory, "no memory"};
      operations[i].found = false;
    }
    return done.Run();
  }
  whole->done_ = std::move(done);
  whole->ttl_from_ = ttl_from;
  whole->core_->BatchBegins();
  Batch* const batch = whole.release();  // Ends in EndOne.
  for (std::size_t i = 0; i < count; ++i) {
    Item* const item = batch->items_[i].get();
    item->batch = batch;
    item->operation = &operations[i];
    Guarded(item, [&] { batch->Begin(&operations[i], item); });
  }
  batch->EndOne();  // NOLINT(clang-analyzer-cplusplus.NewDelete): open_ counts this one, too.
}

// Null: there is no memory, or no thread, for all that the batch will need.
std::unique_ptr<Batch> Batch::Make(std::shared_ptr<Core> core, std::size_t count, Duration within) {
  if (!core->executor().IsReady()) return nullptr;
  try {
    std::unique_ptr<Batch> made(new Batch(std::move(core), count, within));
    for (std::size_t i = 0; i < count; ++i) made->items_.push_back(std::make_unique<Item>());
    return made;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

Batch::Batch(std::shared_ptr<Core> core, std::size_t count, Duration within)
    : core_(std::move(core)),
      deadline_(SaturatingAdd(core_->clock().Now(), within)),
      open_(count + 1) {
  items_.reserve(count);
}

void Batch::Begin(Operation* operation, Item* item) {
  item->batch = this;
  item->operation = operation;
  operation->status = Status();
  operation->found = false;
  if (!core_->TakeTicket()) {
    operation->status = Error{
        Code::kBusy, fmt::format("'{}': too many operations in flight", Printable(operation->key))};
    return EndOne();
  }
  switch (operation->kind) {
    case Operation::Kind::kSet:
      return BeginSet(item);
    case Operation::Kind::kGet:
      return BeginGet(item);
    case Operation::Kind::kTouch:
      operation->found = core_->Touch(operation->key);
      if (operation->found) core_->Advise(operation->key, Advice(operation->set));
      return Finish(item, {});
    case Operation::Kind::kErase:
      item->run = &Batch::Erase;
      return core_->strand().Post(item);
  }
}

void Batch::BeginSet(Item* item) {
  const Operation& operation = *item->operation;
  if (Status ok = core_->CheckSource(operation.key, operation.source, operation.set); !ok) {
    return Finish(item, ok);
  }
  item->entry = {operation.key, core_->engine().store().index().HashOf(operation.key),
                 operation.source.bytes(), operation.set, WhereIs(operation.source)};
  // Its ttl counts from now: waiting for room or for the disk does not prolong it.
  if (operation.set.ttl) item->entry.ttl_from = ttl_from_.value_or(core_->clock().Now());
  item->run = &Batch::Admit;
  core_->strand().Post(item);
  // The item lives until the batch has ended, and the batch also waits for this thread.
  if (item->step.exchange(Step::kLeft, std::memory_order_acq_rel) == Step::kAdmitted) Copy(item);
}

// --- gets ---

void Batch::BeginGet(Item* item) {
  Operation* const operation = item->operation;
  operation->lease.Release();
  operation->bytes = 0;
  const std::optional<Place> where = WhereOf(operation->get);
  if (where == Place::kDevice && !core_->why_no_address().empty()) {
    return Finish(item,
                  Error{Code::kNotResident, fmt::format("get '{}': {}", Printable(operation->key),
                                                        core_->why_no_address())});
  }
  if (core_->Find(operation->key, where, &operation->lease) != Core::Found::kBelow) {
    if (operation->lease) core_->Advise(operation->key, Advice(operation->get));
    return FinishGet(item);
  }
  item->PendingGet::where = where;
  if (operation->get.wait <= Duration::zero()) {
    return Finish(
        item, Error{Code::kNotResident, fmt::format("get '{}': it is not in memory, and wait is 0",
                                                    Printable(operation->key))});
  }
  item->run = &Batch::Fetch;
  core_->strand().Post(item);
}

void Batch::Fetch(Strand::Task* task) {
  auto* item = static_cast<Item*>(task);
  Core& core = *item->batch->core_;
  const TimePoint now = core.clock().Now();
  item->PendingGet::hash = core.engine().store().index().HashOf(item->operation->key);
  item->PendingGet::key = item->operation->key;
  item->PendingGet::deadline =
      std::min(item->batch->deadline_, SaturatingAdd(now, item->operation->get.wait));
  item->PendingGet::done = &Batch::Fetched;
  core.engine().Advise(item->operation->key, Advice(item->operation->get), now);
  core.engine().Fetch(item, now);
}

void Batch::Fetched(PendingGet* pending_get, Slot* leased, Status status) {
  auto* item = static_cast<Item*>(pending_get);
  Batch* const batch = item->batch;
  if (!status) return batch->Finish(item, std::move(status));
  batch->core_->HandOver(leased, item->PendingGet::data, &item->operation->lease);
  if (!item->operation->lease || item->operation->get.into.fragments().empty()) {
    return batch->FinishGet(item);
  }
  // This is the strand, which others wait for; the copy can be made elsewhere.
  item->run = &Batch::CopyOut;
  batch->core_->executor().Run(item);
}

void Batch::CopyOut(Strand::Task* task) {
  auto* item = static_cast<Item*>(task);
  Guarded(item, [&] { item->batch->FinishGet(item); });
}

void Batch::FinishGet(Item* item) {
  Operation* const operation = item->operation;
  operation->found = static_cast<bool>(operation->lease);
  operation->bytes = operation->lease.size();
  Status status;
  if (operation->found && !operation->get.into.fragments().empty()) {
    status =
        core_->CopyOut(operation->key, operation->get.into, operation->get.wait, &operation->lease);
    operation->found = static_cast<bool>(operation->lease);
    if (!operation->found) operation->bytes = 0;
    operation->lease.Release();
  }
  Finish(item, std::move(status));
}

// --- sets ---

void Batch::TooLate(Item* item, std::string_view before) {
  Status late;
  try {
    late = Error{Code::kDeadline, fmt::format("set '{}': the time allowed ran out before it {}",
                                              Printable(item->entry.key), before)};
  } catch (const std::bad_alloc&) {
    late = Error{Code::kDeadline, "too late"};
  }
  Finish(item, std::move(late));
}

void Batch::Admit(Strand::Task* task) {
  auto* item = static_cast<Item*>(task);
  Batch* batch = item->batch;
  Core& core = *batch->core_;
  if (batch->TooLate()) return batch->TooLate(item, "was admitted");
  bool soon = false;
  Result<std::uint32_t> slot = Error{Code::kNoMemory, "no memory"};
  try {
    slot = core.engine().Admit(item->entry, core.clock().Now(),
                               core.engine().single() ? nullptr : &soon);
  } catch (const std::bad_alloc&) {
    soon = false;
  }
  if (soon) {
    item->PendingSet::deadline = batch->deadline_;
    item->PendingSet::retry = &Batch::Retry;
    return core.engine().AddPendingSet(item);
  }
  if (!slot) return batch->FinishAdmit(item, slot.error());
  item->slot = *slot;
  batch->Admitted(item);
}

// Ends the item even if there is no memory for the message.
void Batch::FinishAdmit(Item* item, const Error& error) {
  Status status;
  try {
    status = error;
  } catch (const std::bad_alloc&) {
    status = Error{error.code, "no memory"};
  }
  Finish(item, std::move(status));
}

// Called by the engine when there may be room, or with `expired` when the deadline has
// passed. True: the item has left the queue of waiting sets.
bool Batch::Retry(Engine::PendingSet* pending_set, bool expired) {
  auto* item = static_cast<Item*>(pending_set);
  Batch* const batch = item->batch;
  Core& core = *batch->core_;
  if (expired) {
    batch->TooLate(item, "was admitted");
    return true;
  }
  bool soon = false;
  Result<std::uint32_t> slot = Error{Code::kNoMemory, "no memory"};
  try {
    slot = core.engine().Admit(item->entry, core.clock().Now(), &soon);
  } catch (const std::bad_alloc&) {
    soon = false;
  }
  if (soon) return false;
  if (!slot) {
    batch->FinishAdmit(item, slot.error());
    return true;
  }
  item->slot = *slot;
  batch->Admitted(item);
  return true;
}

void Batch::Admitted(Item* item) {
  if (item->step.exchange(Step::kAdmitted, std::memory_order_acq_rel) == Step::kLeft) {
    item->run = &Batch::Copy;
    core_->executor().Run(item);
  }
}

void Batch::Copy(Strand::Task* task) {
  auto* item = static_cast<Item*>(task);
  Core& core = *item->batch->core_;
  const Source& source = item->operation->source;
  const bool torn = MutantOn(Mutant::kTornCopy) && source.fragments().size() > 1;
  Status filled = torn ? core.Fill(item->slot, Source({source.fragments().front()}))
                       : core.Fill(item->slot, source);
  if (!filled) return item->batch->Finish(item, std::move(filled));
  item->run = &Batch::Commit;
  core.strand().Post(item);
}

void Batch::Commit(Strand::Task* task) {
  auto* item = static_cast<Item*>(task);
  Batch* batch = item->batch;
  Core& core = *batch->core_;
  if (batch->TooLate() && !MutantOn(Mutant::kLateCommit)) {
    core.engine().Abort(item->slot);
    item->late = true;
    return batch->FinishWrite(item);
  }
  try {
    core.engine().Commit(item->slot, core.clock().Now());
    const Advice advice(item->operation->set);
    core.engine().Advise(item->operation->key, advice, core.clock().Now());
  } catch (const std::bad_alloc&) {
    return batch->Finish(item, Error{Code::kNoMemory, "no memory"});
  }
  batch->FinishWrite(item);
}

void Batch::Erase(Strand::Task* task) {
  auto* item = static_cast<Item*>(task);
  Core& core = *item->batch->core_;
  Operation* operation = item->operation;
  const std::uint64_t hash = core.engine().store().index().HashOf(operation->key);
  try {
    operation->found =
        !operation->key.empty() && core.engine().Erase(hash, operation->key, core.clock().Now());
  } catch (const std::bad_alloc&) {
    return item->batch->Finish(item, Error{Code::kNoMemory, "no memory"});
  }
  item->batch->FinishWrite(item);
}

// A write is answered only after the disk has recorded that the replaced value is gone.
// That wait must not block the strand, so the executor does it.
void Batch::FinishWrite(Item* item) {
  if (!core_->engine().TakeDeletesPending() || !core_->has_pending_deletes()) {
    return item->late ? TooLate(item, "was whole") : Finish(item, {});
  }
  item->run = &Batch::FlushDeletes;
  core_->executor().Run(item);
}

void Batch::FlushDeletes(Strand::Task* task) {
  auto* item = static_cast<Item*>(task);
  item->batch->core_->FlushAfterWrite();
  item->late ? item->batch->TooLate(item, "was whole") : item->batch->Finish(item, {});
}

void Batch::Finish(Item* item, Status status) {
  item->operation->status = std::move(status);
  core_->GiveTicket();
  EndOne();
}

// The last item, or the submitter if it is later, ends the batch.
void Batch::EndOne() {
  if (open_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (MutantOn(Mutant::kPendingGetForgotten) && items_.size() % 3 == 2) return;
  // The thread that closes the cache waits for BatchEnds; until then it keeps the core.
  Core& core = *core_;
  {
    const std::unique_ptr<Batch> last(this);
    done_->Run();
  }
  core.BatchEnds();
}

}  // namespace spillway
