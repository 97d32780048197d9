// A Strand runs events one after another: everything that changes where bytes
// live happens on it. There is no thread behind it. Whoever posts while nobody
// runs becomes the runner and runs until nothing is left (flat combining), so
// an uncontended event costs a few atomic operations on the caller's own
// thread. The simulator has its own Strand and picks the next event by seed.
#pragma once

#include <atomic>
#include <exception>
#include <type_traits>

namespace spillway {

class Strand {
 public:
  // Intrusive, so that posting allocates nothing. Must live until it has run;
  // `run` is the last to touch it.
  struct Task {
    Task* next = nullptr;
    void (*run)(Task*) = nullptr;
    bool beside_gate = false;  // See Gate.
  };

  // What may change beside the strand, and is kept from it while an event runs;
  // but not while one does that says so itself.
  class Gate {
   public:
    virtual ~Gate() = default;
    virtual void Shut() = 0;
    virtual void Reopen() = 0;
  };

  virtual ~Strand() = default;
  // From any thread. The task may have run when Post returns, or may run later
  // on another thread.
  virtual void Post(Task* task) = 0;
};

class CombiningStrand final : public Strand {
 public:
  void Post(Task* task) override;
  // Runs it now, unless somebody else runs the strand. False: it has not run.
  bool TryRun(Task* task);
  // Before anything is posted. Borrowed.
  void GuardBy(Gate* gate) { gate_ = gate; }

 private:
  void Push(Task* task);
  void RunAll();
  void RunWhatIsLeft();
  void Run(Task* task);

  Gate* gate_ = nullptr;

  std::atomic<Task*> posted_{nullptr};  // A stack; taken whole and reversed.
  std::atomic<bool> running_{false};
};

// How long a waiter looks before it sleeps: an event takes well under a
// microsecond, going to sleep and being woken takes several. 256 pauses are 3 us where
// one takes 12 ns, and 10 us where it takes 40.
inline constexpr int kLooksBeforeSleep = 256;
inline void PauseBriefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

// Runs `work` beside the gate if nobody runs the strand now; else false. It must
// not throw.
template <typename Work>
bool TryRunBeside(CombiningStrand& strand, Work&& work) {
  struct Beside : Strand::Task {
    std::remove_reference_t<Work>* work;
  } task;
  task.work = &work;
  task.beside_gate = true;
  task.run = [](Strand::Task* self) { (*static_cast<Beside*>(self)->work)(); };
  return strand.TryRun(&task);
}

// Posts `work` and returns when it has run. Never call it from the strand. What
// `work` throws is thrown here: whoever runs the strand has no part in it.
template <typename Work>
void RunOn(Strand& strand, Work&& work, bool beside_gate = false) {
  struct Waiting : Strand::Task {
    std::remove_reference_t<Work>* work;
    std::exception_ptr thrown;
    std::atomic<int> done{0};
  } task;
  task.work = &work;
  task.beside_gate = beside_gate;
  task.run = [](Strand::Task* self) {
    auto* waiting = static_cast<Waiting*>(self);
    try {
      (*waiting->work)();
    } catch (...) {
      waiting->thrown = std::current_exception();
    }
    // The waiter may destroy the task as soon as it sees 1: notify by address
    // only, nothing of the task is read after the store. Sequentially consistent:
    // libstdc++ looks whether anybody sleeps before it wakes, and behind a mere
    // release that look may overtake the store; then who just goes to sleep, having
    // seen 0, is never woken.
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
