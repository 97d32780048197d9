#include "cache/batch.h"

#include <fmt/format.h>

#include "base/later.h"
#include "base/mutant.h"
#include "base/printable.h"

namespace spillway {

void Batch::Submit(std::shared_ptr<Core> core, Operation* operations, std::size_t count,
                   Duration within, Completion done) {
  auto* batch = new Batch(std::move(core), count, within, std::move(done));  // Ends in EndOne.
  for (std::size_t i = 0; i < count; ++i) {
    batch->items_.push_back(std::make_unique<Item>());
    batch->Begin(&operations[i], batch->items_.back().get());
  }
  batch->EndOne();
}

Batch::Batch(std::shared_ptr<Core> core, std::size_t count, Duration within, Completion done)
    : core_(std::move(core)),
      deadline_(Later(core_->clock().Now(), within)),
      done_(std::move(done)),
      open_(count + 1) {
  items_.reserve(count);
  core_->BatchBegins();
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
      if (!operation->get.into.fragments().empty()) {
        return Finish(item, core_->GetInto(operation->key, operation->get.into, operation));
      }
      operation->lease.Release();
      operation->found = core_->Get(operation->key, &operation->lease);
      operation->bytes = operation->lease.size();
      return Finish(item, {});
    case Operation::Kind::kTouch:
      operation->found = core_->Touch(operation->key);
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
                 operation.source.bytes(), operation.set};
  item->run = &Batch::Admit;
  core_->strand().Post(item);
  // The item lives until the batch has ended, and that waits for us too.
  if (item->step.exchange(Step::kLeft, std::memory_order_acq_rel) == Step::kAdmitted) Copy(item);
}

void Batch::Admit(Strand::Task* task) {
  auto* item = static_cast<Item*>(task);
  Batch* batch = item->batch;
  Core& core = *batch->core_;
  if (batch->TooLate()) {
    return batch->Finish(
        item, Error{Code::kDeadline, fmt::format("set '{}': the time allowed ran out before it "
                                                 "was admitted",
                                                 Printable(item->entry.key))});
  }
  Result<std::uint32_t> slot = core.engine().Admit(item->entry, core.clock().Now());
  if (!slot) return batch->Finish(item, slot.error());
  item->slot = *slot;
  if (item->step.exchange(Step::kAdmitted, std::memory_order_acq_rel) == Step::kLeft) {
    item->run = &Batch::Copy;
    core.executor().Run(item);
  }
}

void Batch::Copy(Strand::Task* task) {
  auto* item = static_cast<Item*>(task);
  Core& core = *item->batch->core_;
  Store& store = core.engine().store();
  const Source& source = item->operation->source;
  std::byte* data = store.slots().slot(item->slot).data;
  if (MutantOn(Mutant::kTornCopy) && source.fragments().size() > 1) {
    store.tier()->Write(data, Source({source.fragments().front()}));
  } else {
    store.tier()->Write(data, source);
  }
  item->run = &Batch::Commit;
  core.strand().Post(item);
}

void Batch::Commit(Strand::Task* task) {
  auto* item = static_cast<Item*>(task);
  Batch* batch = item->batch;
  Core& core = *batch->core_;
  if (batch->TooLate() && !MutantOn(Mutant::kLateCommit)) {
    core.engine().Abort(item->slot);
    return batch->Finish(
        item, Error{Code::kDeadline, fmt::format("set '{}': the time allowed ran out before it "
                                                 "was whole",
                                                 Printable(item->entry.key))});
  }
  core.engine().Commit(item->slot, core.clock().Now());
  batch->Finish(item, {});
}

void Batch::Erase(Strand::Task* task) {
  auto* item = static_cast<Item*>(task);
  Core& core = *item->batch->core_;
  Operation* operation = item->operation;
  const std::uint64_t hash = core.engine().store().index().HashOf(operation->key);
  operation->found =
      !operation->key.empty() && core.engine().Erase(hash, operation->key, core.clock().Now());
  item->batch->Finish(item, {});
}

void Batch::Finish(Item* item, Status status) {
  item->operation->status = std::move(status);
  core_->GiveTicket();
  EndOne();
}

void Batch::EndOne() {
  if (open_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (MutantOn(Mutant::kWaiterForgotten) && items_.size() % 3 == 2) return;
  // Whoever closes the cache waits for BatchEnds; until then it keeps the core.
  Core& core = *core_;
  {
    const std::unique_ptr<Batch> last(this);
    done_.Run();
  }
  core.BatchEnds();
}

}  // namespace spillway
