// SPDX-License-Identifier: Apache-2.0
// The Interleaver runs a few logical threads of real code in every order their steps
// can take. The code under test calls Point before each operation that other threads
// could see; between two points a thread runs alone. Orders are explored depth first:
// each run replays the choices of the run before, up to the last one that has an
// alternative.
//
// It explores interleavings of whole operations (sequential consistency); what weaker
// memory orders permit is left to the thread sanitizer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace spillway::testing {

class Interleaver {
 public:
  using Body = std::function<void()>;

  // One run: a fresh world, its threads, and what must hold at every step and at the
  // end.
  struct Run {
    std::vector<Body> threads;
    Body at_every_step;
    Body at_end;
  };

  struct Outcome {
    std::uint64_t interleavings = 0;
    std::string failure;        // Empty: none failed.
    std::vector<int> schedule;  // The thread of each step of the run that failed.
  };

  Interleaver();
  ~Interleaver();
  Interleaver(const Interleaver&) = delete;
  Interleaver& operator=(const Interleaver&) = delete;

  // Calls `begin` for each interleaving until all have been run or one fails.
  Outcome Explore(const std::function<Run()>& begin);

  // --- for the code under test; outside Explore they do nothing ---

  // Another thread may run first here.
  static void Point();
  // Runs `then` on this thread right after its next Point, together with the operation
  // that follows.
  static void AtNextPoint(Body then);
  // True on some paths: at most once per run, and on a separate path for each place
  // that calls it.
  static bool MaybeOnce();
  static void Fail(std::string why);

 private:
  struct Fiber;
  struct Choice {
    int taken;
    int of;
  };

  static void Enter(unsigned low, unsigned high);
  void Loop(Fiber* self);
  void RunOne(const std::function<Run()>& begin);
  int Choose(int of);
  Fiber* ChooseThread();
  void SwitchTo(Fiber* next);
  bool Advance();

  std::vector<std::unique_ptr<Fiber>> fibers_;  // [0] is the caller of Explore.
  Fiber* current_ = nullptr;
  std::size_t threads_ = 0;
  Run run_;
  std::vector<Choice> path_;
  std::size_t depth_ = 0;
  std::vector<int> schedule_;
  bool starting_ = false;  // The current thread has not reached its first point.
  bool once_used_ = false;
  std::string failure_;
};

}  // namespace spillway::testing
