// OOM rescue: torch's CUDA allocator asks the cache for memory before it fails.
//
// There are three hooks, all inside the allocator:
//   - A FreeMemoryCallback. torch calls it when it has no cached block that fits, before it asks
//     the driver. The callback is not told how much is needed.
//   - The allocator's own virtual function `allocate`, so that the callback knows: ours stores
//     the size for this thread and calls torch's. If the function cannot be replaced, the
//     callback keeps a reserve free instead, and learns from
//   - an out-of-memory observer. It is told the size after a failure, and frees that much for
//     the next try.
//
// With enough free memory a call costs one thread-local store, and a callback costs one question to
// the driver (about 4 us) before a cudaMalloc that costs far more; if much is free, the answer is
// reused for some milliseconds. torch holds its allocator's lock during the callback, so nothing
// here allocates by torch, takes the interpreter's lock, or waits for a thread that might.
//
// Compiled on first use for the installed torch; loaded by ctypes.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <shared_mutex>

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>

#include "_rescue_hook.h"

namespace {

using Reclaim = std::int32_t (*)(void* cache, std::uint64_t bytes, std::int64_t within_ms,
                                 std::uint64_t* freed, char** why_not_more);
using spillway_rescue::Allocate;

struct Rescue {
  std::shared_mutex mutex;  // Held exclusively while the cache is set or removed.
  void* cache = nullptr;    // Guarded by mutex, like all members down to the counters.
  Reclaim reclaim = nullptr;
  int device = 0;
  std::uint64_t reserve = 0;
  std::int64_t within_ms = 0;
  std::atomic<bool> on{false};
  std::atomic<std::uint64_t> asked{0};    // Number of callbacks.
  std::atomic<std::uint64_t> rescues{0};  // Callbacks that reclaimed.
  std::atomic<std::uint64_t> freed{0};
  std::atomic<std::uint64_t> failures{0};     // Failures in spite of it.
  std::atomic<std::uint64_t> last_failed{0};  // The size needed at the last failure.
};

Rescue& TheRescue() {
  // Never destroyed: torch may allocate until the process ends.
  static Rescue* const rescue = new Rescue;
  return *rescue;
}

thread_local std::size_t wanted = 0;
Allocate torch_allocate = nullptr;

// torch takes whole segments from the driver: 2 MiB for small blocks, 20 MiB for medium ones,
// otherwise multiples of 2 MiB. Some memory is added for fragmentation.
std::uint64_t SegmentFor(std::uint64_t bytes) {
  constexpr std::uint64_t kMiB = 1 << 20;
  if (bytes <= kMiB) return 2 * kMiB;
  if (bytes < 10 * kMiB) return 20 * kMiB;
  return (bytes + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB);
}
constexpr std::uint64_t kSlack = 64 << 20;

// The driver's last answer, while it can be relied on: for a short time, for a small part of what
// was free, and not at all if little was free.
struct Ample {
  std::int64_t until = 0;  // In nanoseconds of the steady clock.
  std::uint64_t left = 0;
};
thread_local Ample ample;
constexpr std::int64_t kTrust = 5'000'000;
constexpr std::uint64_t kMuch = std::uint64_t{16} << 30;

std::int64_t Now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

bool IsAmple(std::uint64_t need) {
  if (need > ample.left || Now() > ample.until) return false;
  ample.left -= need;
  return true;
}

std::uint64_t MakeRoom(Rescue& rescue, std::uint64_t need) {
  std::size_t free = 0;
  std::size_t total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) return 0;
  if (free >= need) {
    ample = free - need >= kMuch ? Ample{Now() + kTrust, (free - need) / 8} : Ample{};
    return 0;
  }
  ample = {};
  const std::shared_lock lock(rescue.mutex);
  if (rescue.cache == nullptr) return 0;
  std::uint64_t freed = 0;
  rescue.reclaim(rescue.cache, need - free, rescue.within_ms, &freed, nullptr);
  rescue.rescues.fetch_add(1, std::memory_order_relaxed);
  rescue.freed.fetch_add(freed, std::memory_order_relaxed);
  return freed;
}

class SpillwayCallback final : public c10::FreeMemoryCallback {
 public:
  bool Execute() override {
    Rescue& rescue = TheRescue();
    if (!rescue.on.load(std::memory_order_acquire)) return false;
    rescue.asked.fetch_add(1, std::memory_order_relaxed);
    if (c10::cuda::current_device() != rescue.device) return false;
    const std::uint64_t need = wanted != 0 ? SegmentFor(wanted) + kSlack : rescue.reserve;
    return !IsAmple(need) && MakeRoom(rescue, need) > 0;
  }
};

c10::DataPtr NotingAllocate(c10::Allocator* self, std::size_t bytes) {
  struct Noted {
    explicit Noted(std::size_t size) : before(wanted) { wanted = size; }
    ~Noted() { wanted = before; }
    const std::size_t before;
  } noted(bytes);
  return torch_allocate(self, bytes);
}

void Observe(std::int64_t device, std::size_t bytes, std::size_t, std::size_t) {
  Rescue& rescue = TheRescue();
  if (!rescue.on.load(std::memory_order_acquire) || device != rescue.device) return;
  rescue.failures.fetch_add(1, std::memory_order_relaxed);
  rescue.last_failed.store(bytes, std::memory_order_relaxed);
  MakeRoom(rescue, SegmentFor(bytes) + kSlack);
}

// Called once; from then on every allocation stores its size.
bool HookAllocate() {
  if (torch_allocate != nullptr) return true;
  return spillway_rescue::HookAllocate(c10::cuda::CUDACachingAllocator::get(), NotingAllocate,
                                       &torch_allocate);
}

}  // namespace

namespace c10 {
REGISTER_FREE_MEMORY_CALLBACK("spillway", SpillwayCallback)
}  // namespace c10

extern "C" {

// Returns 2 if the callback knows sizes, 1 if it keeps `reserve` free, 0 if neither is possible.
__attribute__((visibility("default"))) int spillway_rescue_install(
    void* cache, void* reclaim, int device, std::uint64_t reserve, std::int64_t within_ms,
    int note_sizes) {
  Rescue& rescue = TheRescue();
  static std::once_flag once;
  std::call_once(once, [] { c10::cuda::CUDACachingAllocator::attachOutOfMemoryObserver(Observe); });
  const bool sized = note_sizes != 0 && HookAllocate();
  const std::unique_lock lock(rescue.mutex);
  rescue.cache = cache;
  rescue.reclaim = reinterpret_cast<Reclaim>(reclaim);
  rescue.device = device;
  rescue.reserve = reserve;
  rescue.within_ms = within_ms;
  rescue.on.store(true, std::memory_order_release);
  return sized ? 2 : 1;
}

// When it returns, no callback is using the cache any more.
__attribute__((visibility("default"))) void spillway_rescue_remove() {
  Rescue& rescue = TheRescue();
  rescue.on.store(false, std::memory_order_release);
  const std::unique_lock lock(rescue.mutex);
  rescue.cache = nullptr;
}

// asked, rescues, freed, failures, last_failed
__attribute__((visibility("default"))) void spillway_rescue_read(std::uint64_t* counters) {
  const Rescue& rescue = TheRescue();
  counters[0] = rescue.asked.load();
  counters[1] = rescue.rescues.load();
  counters[2] = rescue.freed.load();
  counters[3] = rescue.failures.load();
  counters[4] = rescue.last_failed.load();
}

}  // extern "C"
