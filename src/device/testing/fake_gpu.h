// SPDX-License-Identifier: Apache-2.0
// A GPU over host memory, behind a driver library that is loaded like a real one
// (tests/fakes/gpu): every card, stream and copy of a test, executed in an order
// of its own choosing. It detects wrong use, and fails calls when told to.
//
//   FakeGpu gpu(GpuKind::kCuda, SPILLWAY_FAKES_DIR, {.granularity = 64 * kKiB});
//   ... everything that uses gpu.driver() ...
//
// A library has one state for the whole process: one FakeGpu of a kind at a time,
// which must outlive its users. Misuse found at destruction fails the test.
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
  Bytes granularity = 2 * kMiB;  // A power of two of at least 4 KiB.
  std::string name = "Fake GPU";
  std::string uuid = "5b1e0c2f-7a44-4d8e-9c31-d2f60a8b7e00";
  std::string pci = "0000:41:00.0";
  int version = 13000;
  std::uint64_t seed = 1;  // Of the order in which streams advance.
  bool stale = false;      // New memory contains old bytes.
  bool thread = false;     // A thread executes queued work, instead of the calls that wait for it.
  // Strict: a release that is told to fail does nothing. Otherwise it returns the
  // code but is done all the same, like a driver that reports an older error.
  bool strict = false;
  Bytes foreign = 0;         // Held by other processes from the start.
  std::string backing = {};  // Folder of its memory, shared by processes.
  // A file through which processes share the cards and see each other's memory.
  std::string together = {};
  std::string vmm = "good";  // Or how it misbehaves: see tests/fakes/gpu/options.h.

  // The text that the library reads, from a control or from SPILLWAY_FAKE_GPU.
  std::string Text() const;
};

class FakeGpu {
 public:
  // The library's path under a folder of fakes; `variant` for example "without_batch".
  static std::string Library(GpuKind kind, std::string_view fakes_dir,
                             std::string_view variant = {});

  // Stops the program if the library is not as expected.
  FakeGpu(GpuKind kind, std::string_view fakes_dir, const FakeGpuOptions& options = {},
          std::string_view variant = {});
  // Fails the test on misuse and, unless nothing could be returned, on leaks.
  ~FakeGpu();
  FakeGpu(const FakeGpu&) = delete;
  FakeGpu& operator=(const FakeGpu&) = delete;

  const std::shared_ptr<const GpuDriver>& driver() const { return driver_; }
  const std::string& library() const { return library_; }
  // Resets everything, including whatever still exists.
  void Reset(const FakeGpuOptions& options);

  // The n-th call from now on (1: the next) returns `code`: once, or it and all
  // after it. A fatal code ends all queued work. 0 cancels this.
  void Fail(std::uint64_t n, int code, bool for_good = false);
  // The same for one function, by its name in GpuDriver ("memory_map").
  void FailFunction(const std::string& function, std::uint64_t n, int code, bool for_good = false);
  // All calls return `code`; 0: the card works again, also after an illegal access.
  void Lose(int code = 999);
  // While it hangs, no queued work is done.
  void Hang(bool hung);
  // The n-th copy to the device from now on (1: the next) has one bit flipped.
  void Garble(std::uint64_t n);
  // This much of the card belongs to another process.
  void SetForeign(Bytes bytes, int card = 0);
  // Does all queued work, as if each operation had been waited for.
  int Finish();

  // Reads device memory, past all streams: only while nothing is in flight.
  // Stops the program if there is no memory.
  std::string Peek(GpuAddress at, Bytes bytes) const;
  void Poke(GpuAddress at, std::string_view bytes);

  // One line for each misuse; empty: none.
  std::string misuse() const;
  std::string leaks() const;
  std::string TakeMisuse();
  // Whether all calls fail from here on.
  bool out_of_reach() const;

  std::uint64_t calls() const;
  std::uint64_t calls(const std::string& function) const;
  std::string failed() const;      // The last function that was told to fail.
  std::uint64_t pageable() const;  // Copies of host memory that is not registered.
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
