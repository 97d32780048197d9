// SPDX-License-Identifier: Apache-2.0
#include "cache/testing/interleaver.h"

#include <ucontext.h>

#include <cassert>
#include <cstdlib>
#include <utility>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SPILLWAY_ASAN 1
#include <sanitizer/common_interface_defs.h>
#endif
#if __has_feature(thread_sanitizer)
#define SPILLWAY_TSAN 1
#include <sanitizer/tsan_interface.h>
#endif
#endif

namespace spillway::testing {

namespace {
constexpr std::size_t kStackBytes = std::size_t{256} << 10;
constexpr std::size_t kStepsMax = 1000;  // A run of our programs has a few dozen.
Interleaver* exploring = nullptr;        // Only one at a time, on one thread.
}  // namespace

// A stack of its own to run on. A fiber never ends: it waits for the next run.
struct Interleaver::Fiber {
  Interleaver* owner = nullptr;
  int number = 0;
  bool done = true;
  Body at_next_point;
  ucontext_t context{};
  std::unique_ptr<char[]> stack;
#if defined(SPILLWAY_ASAN)
  void* fake_stack = nullptr;
  const void* bottom = nullptr;
  std::size_t bytes = 0;
#endif
#if defined(SPILLWAY_TSAN)
  void* fiber = nullptr;
#endif
};

Interleaver::Interleaver() {
  fibers_.push_back(std::make_unique<Fiber>());
  current_ = fibers_.front().get();
#if defined(SPILLWAY_TSAN)
  current_->fiber = __tsan_get_current_fiber();
#endif
}

Interleaver::~Interleaver() {
#if defined(SPILLWAY_TSAN)
  for (std::size_t i = 1; i < fibers_.size(); ++i) __tsan_destroy_fiber(fibers_[i]->fiber);
#endif
}

Interleaver::Outcome Interleaver::Explore(const std::function<Run()>& begin) {
  assert(exploring == nullptr);
  exploring = this;
  Outcome outcome;
  path_.clear();
  failure_.clear();
  do {
    RunOne(begin);
    ++outcome.interleavings;
  } while (failure_.empty() && Advance());
  outcome.failure = failure_;
  outcome.schedule = schedule_;
  run_ = Run();
  exploring = nullptr;
  return outcome;
}

void Interleaver::RunOne(const std::function<Run()>& begin) {
  run_ = begin();
  threads_ = run_.threads.size();
  depth_ = 0;
  once_used_ = false;
  schedule_.clear();
  while (fibers_.size() <= threads_) {
    fibers_.push_back(std::make_unique<Fiber>());
    Fiber* fiber = fibers_.back().get();
    fiber->owner = this;
    fiber->number = static_cast<int>(fibers_.size()) - 1;
    fiber->stack = std::make_unique<char[]>(kStackBytes);
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack.get();
    fiber->context.uc_stack.ss_size = kStackBytes;
    // makecontext passes ints only, so the pointer is passed in two halves.
    const auto address = reinterpret_cast<std::uintptr_t>(fiber);
    makecontext(&fiber->context, reinterpret_cast<void (*)()>(&Interleaver::Enter), 2,
                static_cast<unsigned>(address), static_cast<unsigned>(address >> 32));
#if defined(SPILLWAY_ASAN)
    fiber->bottom = fiber->stack.get();
    fiber->bytes = kStackBytes;
#endif
#if defined(SPILLWAY_TSAN)
    fiber->fiber = __tsan_create_fiber(0);
#endif
  }
  // No other thread sees what a thread does before its first point: no choice there.
  for (std::size_t i = 1; i <= threads_; ++i) {
    fibers_[i]->done = false;
    starting_ = true;
    SwitchTo(fibers_[i].get());
  }
  SwitchTo(ChooseThread());
  run_.at_end();
}

void Interleaver::Enter(unsigned low, unsigned high) {
  auto* self = reinterpret_cast<Fiber*>(static_cast<std::uintptr_t>(low) |
                                        (static_cast<std::uintptr_t>(high) << 32));
  self->owner->Loop(self);
}

void Interleaver::Loop(Fiber* self) {
#if defined(SPILLWAY_ASAN)
  // The first fiber that runs tells the sanitizer where the caller of Explore has its
  // stack.
  const void* bottom = nullptr;
  std::size_t bytes = 0;
  __sanitizer_finish_switch_fiber(nullptr, &bottom, &bytes);
  Fiber* caller = fibers_.front().get();
  if (caller->bottom == nullptr) {
    caller->bottom = bottom;
    caller->bytes = bytes;
  }
#endif
  for (;;) {
    run_.threads[static_cast<std::size_t>(self->number) - 1]();
    self->done = true;
    run_.at_every_step();
    SwitchTo(std::exchange(starting_, false) ? fibers_.front().get() : ChooseThread());
  }
}

void Interleaver::SwitchTo(Fiber* next) {
  Fiber* from = std::exchange(current_, next);
  if (from == next) return;
#if defined(SPILLWAY_ASAN)
  __sanitizer_start_switch_fiber(&from->fake_stack, next->bottom, next->bytes);
#endif
#if defined(SPILLWAY_TSAN)
  __tsan_switch_to_fiber(next->fiber, 0);
#endif
  swapcontext(&from->context, &next->context);
#if defined(SPILLWAY_ASAN)
  __sanitizer_finish_switch_fiber(from->fake_stack, nullptr, nullptr);
#endif
}

// The thread that runs next, or, when all are done, the caller of Explore.
Interleaver::Fiber* Interleaver::ChooseThread() {
  int ready = 0;
  for (std::size_t i = 1; i <= threads_; ++i) ready += fibers_[i]->done ? 0 : 1;
  if (ready == 0) return fibers_.front().get();
  int nth = Choose(ready);
  for (std::size_t i = 1;; ++i) {
    if (fibers_[i]->done || nth-- > 0) continue;
    schedule_.push_back(static_cast<int>(i));
    if (schedule_.size() > kStepsMax) std::abort();  // It does not end in this order, so abort.
    return fibers_[i].get();
  }
}

int Interleaver::Choose(int of) {
  // After a failure the run is only completed.
  if (of == 1 || !failure_.empty()) return 0;
  if (depth_ == path_.size()) path_.push_back({0, of});
  assert(path_[depth_].of == of);
  return path_[depth_++].taken;
}

bool Interleaver::Advance() {
  while (!path_.empty() && path_.back().taken + 1 == path_.back().of) path_.pop_back();
  if (path_.empty()) return false;
  ++path_.back().taken;
  return true;
}

void Interleaver::Point() {
  if (exploring == nullptr || exploring->current_->number == 0) return;
  Interleaver& self = *exploring;
  if (std::exchange(self.starting_, false)) {
    self.SwitchTo(self.fibers_.front().get());
  } else {
    self.run_.at_every_step();
    self.SwitchTo(self.ChooseThread());
  }
  if (Body then = std::exchange(self.current_->at_next_point, nullptr)) then();
}

void Interleaver::AtNextPoint(Body then) { exploring->current_->at_next_point = std::move(then); }

bool Interleaver::MaybeOnce() {
  if (exploring == nullptr || exploring->current_->number == 0 || exploring->once_used_)
    return false;
  exploring->once_used_ = exploring->Choose(2) == 1;
  return exploring->once_used_;
}

void Interleaver::Fail(std::string why) {
  if (exploring->failure_.empty()) exploring->failure_ = std::move(why);
}

}  // namespace spillway::testing
