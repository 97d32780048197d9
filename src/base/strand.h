// SPDX-License-Identifier: Apache-2.0
// A Strand runs events one after another: everything that changes where bytes
// are stored happens on it. It has no thread of its own. A thread that posts
// while the strand is free becomes the runner and runs events until none is
// left (flat combining), so an uncontended event costs a few atomic operations
// on the caller's own thread. The simulator has its own Strand, which picks the
// next event by seed.
#pragma once

#include <atomic>
#include <exception>
#include <type_traits>

namespace spillway {

class Strand {
 public:
  // Intrusive, so that posting allocates nothing. The task must live until it
  // has run; `run` is the last to access it.
  struct Task {
    Task* next = nullptr;
    void (*run)(Task*) = nullptr;
    bool is_awaited = false;  // The poster blocks until it has run (RunOn).
  };

  virtual ~Strand() = default;
  // Any thread. When Post returns, the task may have run, or it may run later
  // on another thread.
  virtual void Post(Task* task) = 0;
};

class CombiningStrand final : public Strand {
 public:
  void Post(Task* task) override;

 private:
  void Push(Task* task);
  void RunAll();
  void RunWhatIsLeft();

  std::atomic<Task*> posted_{nullptr};  // A stack; taken as a whole and reversed.
  std::atomic<bool> running_{false};
};

// How often a waiting thread checks before it sleeps. An event takes well under
// a microsecond; sleeping and waking takes several. 256 pauses take 3 us where
// one takes 12 ns, and 10 us where one takes 40 ns.
inline constexpr int kLooksBeforeSleep = 256;
inline void PauseBriefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

// Posts `work` and returns when it has run. Never call it from the strand.
// Exceptions of `work` are thrown here, not on the thread that runs the strand.
template <typename Work>
void RunOn(Strand& strand, Work&& work) {
  struct Waiting : Strand::Task {
    std::remove_reference_t<Work>* work;
    std::exception_ptr thrown;
    std::atomic<int> done{0};
  } task;
  task.work = &work;
  task.is_awaited = true;
  task.run = [](Strand::Task* self) {
    auto* waiting = static_cast<Waiting*>(self);
    try {
      (*waiting->work)();
    } catch (...) {
      waiting->thrown = std::current_exception();
    }
    // The waiter may destroy the task as soon as it sees 1: notify by address
    // only, and read nothing of the task after the store. Sequentially
    // consistent: libstdc++ checks for sleeping waiters before it wakes them,
    // and after a mere release that check could overtake the store. A waiter
    // that had seen 0 and was about to sleep would then never be woken.
    std::atomic<int>* done = &waiting->done;
    done->store(1, std::memory_order_seq_cst);
    done->notify_one();
  };
  strand.Post(&task);
  bool done = false;
  for (int looks = 0; looks < kLooksBeforeSleep && !done; ++looks) {
    done = task.done.load(std::memory_order_acquire) != 0;
    if (!done) PauseBriefly();
  }
  if (!done) task.done.wait(0, std::memory_order_acquire);
  if (task.thrown) [[unlikely]]
    std::rethrow_exception(task.thrown);
}

}  // namespace spillway
