// SPDX-License-Identifier: Apache-2.0
#include "base/strand.h"

namespace spillway {

void CombiningStrand::Post(Task* task) {
  if (running_.load(std::memory_order_relaxed) || running_.exchange(true)) {
    Push(task);
  } else {
    // No thread runs. If nothing waits either, it need not be queued first.
    if (posted_.load() == nullptr) {
      task->run(task);
    } else {
      Push(task);
    }
    if (posted_.load() != nullptr) RunAll();
    running_.store(false);
  }
  RunWhatIsLeft();
}

void CombiningStrand::RunWhatIsLeft() {
  // Between the last check and giving up the strand another thread may have
  // posted and seen the strand taken. So check again after giving it up.
  // Sequential consistency guarantees that one of the two threads sees the other.
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
    in_order->run(in_order);
    in_order = next;
  }
}

}  // namespace spillway
