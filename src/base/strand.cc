#include "base/strand.h"

namespace spillway {

void CombiningStrand::Post(Task* task) {
  if (TryRun(task)) return;
  Push(task);
  RunWhatIsLeft();
}

bool CombiningStrand::TryRun(Task* task) {
  if (running_.load(std::memory_order_relaxed) || running_.exchange(true)) return false;
  // Nobody runs. If nothing waits either, it need not be queued first.
  if (posted_.load() == nullptr) {
    Run(task);
  } else {
    Push(task);
  }
  if (posted_.load() != nullptr) RunAll();
  running_.store(false);
  RunWhatIsLeft();
  return true;
}

void CombiningStrand::RunWhatIsLeft() {
  // Between giving up the strand and looking again, somebody may have posted
  // and seen it taken; so look again after giving up. Sequential consistency
  // makes one of the two see the other.
  while (posted_.load() != nullptr && !running_.exchange(true)) {
    RunAll();
    running_.store(false);
  }
}

void CombiningStrand::Push(Task* task) {
  Task* head = posted_.load(std::memory_order_relaxed);
  do {
    task->next = head;
  } while (!posted_.compare_exchange_weak(head, task));
}

void CombiningStrand::RunAll() {
  Task* taken = posted_.exchange(nullptr);
  Task* in_order = nullptr;
  while (taken != nullptr) {
    Task* next = taken->next;
    taken->next = in_order;
    in_order = taken;
    taken = next;
  }
  while (in_order != nullptr) {
    Task* next = in_order->next;
    Run(in_order);
    in_order = next;
  }
}

void CombiningStrand::Run(Task* task) {
  // It may be gone when it has run.
  if (gate_ == nullptr || task->beside_gate) return task->run(task);
  gate_->Shut();
  task->run(task);
  gate_->Reopen();
}

}  // namespace spillway
