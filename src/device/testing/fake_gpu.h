// A GPU over host memory, behind a driver library that is loaded like a real one
// (tests/fakes/gpu): every card, stream and copy of a test, in an order of its
// own choosing. It sees what a program does wrong, and fails where it is told to.
//
//   FakeGpu gpu(GpuKind::kCuda, SPILLWAY_FAKES_DIR, {.granularity = 64 * kKiB});
//   ... everything that uses gpu.driver() ...
//
// A library has one state for the whole process: one FakeGpu of a kind at a time,
// which outlives whatever uses it. What it sees amiss when it goes fails the test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "device/gpu/gpu_driver.h"
#include "spillway/units.h"

namespace spillway::testing {

struct FakeGpuOptions {
  int cards = 1;
  Bytes total = 256 * kMiB;
  Bytes granularity = 2 * kMiB;  // A power of two, 4 KiB at least.
  std::string name = "Fake GPU";
  std::string uuid = "5b1e0c2f-7a44-4d8e-9c31-d2f60a8b7e00";
  std::string pci = "0000:41:00.0";
  int version = 13000;
  std::uint64_t seed = 1;  // Of the order in which streams go on.
  bool stale = false;      // New memory holds what was there before.
  bool thread = false;     // A thread does what is queued, instead of whoever asks.
  // A give-back that is told to fail does nothing. Else it answers so, and has
  // been done all the same, as by a driver that reports an older error.
  bool strict = false;
  Bytes foreign = 0;         // What others hold from the beginning.
  std::string backing = {};  // Folder of its memory, shared by processes.
  // A file by which processes share the cards, each seeing what others have taken.
  std::string together = {};
  std::string vmm = "good";  // Or how it misbehaves: see tests/fakes/gpu/options.h.

  // As the library reads it, from a control or from SPILLWAY_FAKE_GPU.
  std::string Text() const;
};

class FakeGpu {
 public:
  // The library's path under a folder of fakes; `variant` as "without_batch".
  static std::string Library(GpuKind kind, std::string_view fakes_dir,
                             std::string_view variant = {});

  // Stops the program where the library is not as it should be.
  FakeGpu(GpuKind kind, std::string_view fakes_dir, const FakeGpuOptions& options = {},
          std::string_view variant = {});
  // Misuse or, unless nothing could be given back, leaks: the test fails.
  ~FakeGpu();
  FakeGpu(const FakeGpu&) = delete;
  FakeGpu& operator=(const FakeGpu&) = delete;

  const std::shared_ptr<const GpuDriver>& driver() const { return driver_; }
  const std::string& library() const { return library_; }
  // Everything anew, also what is still there.
  void Reset(const FakeGpuOptions& options);

  // The n-th call from now on (1: the next) answers `code`: once, or it and all
  // after it. A code that is fatal ends all that is queued. 0 takes it back.
  void Fail(std::uint64_t n, int code, bool for_good = false);
  // The same for one function, by its name in GpuDriver ("memory_map").
  void FailFunction(const std::string& function, std::uint64_t n, int code, bool for_good = false);
  // All calls answer `code`; 0: the card is back, also from an illegal access.
  void Lose(int code = 999);
  // Nothing that is queued is done while it hangs.
  void Hang(bool hung);
  // The n-th copy to the device from now on (1: the next) has one bit flipped.
  void Garble(std::uint64_t n);
  // So much of the card is another process's.
  void SetForeign(Bytes bytes, int card = 0);
  // Does all that is queued, as if all had been waited for.
  int Finish();

  // Device memory, past all streams: when nothing is under way. Stops the program
  // where there is none.
  std::string Peek(GpuAddress at, Bytes bytes) const;
  void Poke(GpuAddress at, std::string_view bytes);

  // A line for each thing; empty: all is well.
  std::string misuse() const;
  std::string leaks() const;
  std::string TakeMisuse();
  // Whether every call fails from here on.
  bool out_of_reach() const;

  std::uint64_t calls() const;
  std::uint64_t calls(const std::string& function) const;
  std::string failed() const;      // The function that was told to fail last.
  std::uint64_t pageable() const;  // Copies of host memory the driver does not know.
  std::uint64_t pending() const;   // Queued and not done.
  Bytes used(int card = 0) const;  // Physical memory.
  int current() const;             // Contexts this thread has pushed (CUDA).

 private:
  struct Controls;

  const std::string library_;
  const std::unique_ptr<Controls> controls_;
  std::shared_ptr<const GpuDriver> driver_;
};

}  // namespace spillway::testing
