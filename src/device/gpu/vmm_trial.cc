// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/vmm_trial.h"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/parse.h"

namespace spillway {

namespace {

using Steady = std::chrono::steady_clock;  // real world: a device keeps no other time

constexpr std::size_t kChunks = 2;
constexpr std::size_t kSample = 4096;  // Of each end of a chunk.
// Drivers may report free memory late.
constexpr int kLooks = 20;
constexpr Duration kBetweenLooks = std::chrono::milliseconds(10);

// One run of the trial. Its steps return false at the first failure, with the
// reason in result_; Clean returns whatever was created by then.
class Trial {
 public:
  Trial(const GpuDriver& driver, int device, Bytes chunk, Duration within)
      : driver_(driver), device_(device), chunk_(chunk), within_(within) {}

  VmmTrial Run() {
    Bytes before = 0;
    const bool done = Prepare() && Free(&before) && CreateAll() && MapAll(false) && Write() &&
                      CheckTaken(before) && UnmapAll() && MapAll(true) && Verify() && UnmapAll() &&
                      ReleaseAll() && CheckBack(before);
    if (!hung_) Clean();
    result_.good = done;
    return std::move(result_);
  }

 private:
  bool Fail(std::string why) {
    if (result_.why_not.empty()) result_.why_not = std::move(why);
    return false;
  }
  bool Ok(std::string_view call, int code) {
    if (code == 0) return true;
    result_.broken = result_.broken || GpuDriver::IsFatal(code);
    return Fail(driver_.Failed(call, code).message);
  }
  GpuAddress At(std::size_t i) const { return range_ + i * chunk_; }

  bool Free(Bytes* free) {
    std::size_t now = 0;
    std::size_t total = 0;
    if (!Ok("reading its free memory", driver_.memory_info(&now, &total))) return false;
    *free = now;
    return true;
  }
  bool Prepare() {
    return Ok("reserving addresses",
              driver_.address_reserve(&range_, kChunks * chunk_, chunk_, 0, 0)) &&
           Ok("making a stream", driver_.stream_create(&stream_, kGpuNonBlocking, 0)) &&
           Ok("making an event", driver_.event_create(&event_, kGpuNoTiming)) &&
           Ok("taking host memory", driver_.host_alloc(&host_, kSample, kGpuPortable));
  }
  bool CreateAll() {
    GpuMemoryKind kind;
    kind.location = {1, device_};
    const auto start = Steady::now();  // real world: as above
    for (GpuHandle& handle : handles_) {
      const int code = driver_.memory_create(&handle, chunk_, &kind, 0);
      result_.no_memory = code == kGpuNoMemory;
      if (!Ok("creating memory", code)) return false;
    }
    result_.create = (Steady::now() - start) / kChunks;  // real world: as above
    return true;
  }
  // Other processes allocate and free meanwhile, so only large differences count.
  bool CheckTaken(Bytes before) {
    Bytes now = 0;
    if (!Free(&now)) return false;
    return now < before || Fail("created memory is not subtracted from the free memory");
  }
  bool CheckBack(Bytes before) {
    constexpr Bytes kGiven = kChunks;
    Bytes now = 0;
    for (int looked = 0; looked < kLooks; ++looked) {
      if (!Free(&now)) return false;
      if (now + chunk_ > before) return true;
      std::this_thread::sleep_for(kBetweenLooks);  // real world: as above
    }
    return Fail(fmt::format("of {} returned, {} are not free again", FormatBytes(kGiven * chunk_),
                            FormatBytes(before - now)));
  }
  bool MapAll(bool other_way_round) {
    GpuAccess access;
    access.location = {1, device_};
    const auto start = Steady::now();  // real world: as above
    for (std::size_t i = 0; i < kChunks; ++i) {
      const std::size_t at = other_way_round ? kChunks - 1 - i : i;
      if (!Ok("mapping", driver_.memory_map(At(at), chunk_, 0, handles_[i], 0))) return false;
      mapped_[at] = true;
      if (!Ok("giving access", driver_.memory_access(At(at), chunk_, &access, 1))) return false;
    }
    result_.map = (Steady::now() - start) / kChunks;  // real world: as above
    return true;
  }
  bool UnmapAll() {
    bool all = true;
    const auto start = Steady::now();  // real world: as above
    for (std::size_t i = 0; i < kChunks; ++i) {
      if (!mapped_[i]) continue;
      mapped_[i] = !Ok("unmapping", Insist([&] { return driver_.memory_unmap(At(i), chunk_); }));
      all = all && !mapped_[i];
    }
    result_.unmap = (Steady::now() - start) / kChunks;  // real world: as above
    return all;
  }
  bool ReleaseAll() {
    const auto start = Steady::now();  // real world: as above
    for (GpuHandle& handle : handles_) {
      const GpuHandle gone = std::exchange(handle, 0);
      if (gone == 0) continue;
      if (!Ok("releasing", Insist([&] { return driver_.memory_release(gone); }))) return false;
    }
    result_.release = (Steady::now() - start) / kChunks;  // real world: as above
    return true;
  }

  // The first and the last bytes of a chunk.
  std::array<Bytes, 2> Ends() const { return {0, chunk_ - kSample}; }
  static void Pattern(std::size_t chunk, std::size_t end, void* into) {
    std::uint64_t state = 0x9e3779b97f4a7c15ULL * (1 + chunk * 2 + end);
    auto* at = static_cast<std::byte*>(into);
    for (std::size_t i = 0; i < kSample; i += sizeof state) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      std::memcpy(at + i, &state, sizeof state);
    }
  }
  bool Write() {
    for (std::size_t i = 0; i < kChunks; ++i) {
      for (std::size_t end = 0; end < Ends().size(); ++end) {
        Pattern(i, end, host_);
        const int code = driver_.copy_to_device(At(i) + Ends()[end], host_, kSample, stream_);
        if (!Ok("copying", code) || !Wait()) return false;
      }
    }
    return true;
  }
  // The bytes written to the first chunk are now in the place of the last, and so on.
  bool Verify() {
    std::array<std::byte, kSample> wanted{};
    for (std::size_t i = 0; i < kChunks; ++i) {
      for (std::size_t end = 0; end < Ends().size(); ++end) {
        const GpuAddress from = At(kChunks - 1 - i) + Ends()[end];
        std::memset(host_, 0, kSample);
        if (!Ok("copying", driver_.copy_to_host(host_, from, kSample, stream_)) || !Wait()) {
          return false;
        }
        Pattern(i, end, wanted.data());
        if (std::memcmp(host_, wanted.data(), kSample) != 0) {
          return Fail("memory that was mapped again holds something else");
        }
      }
    }
    return true;
  }
  // If the end of a copy cannot be observed the copy may go on: then no memory
  // it uses is returned.
  bool Wait() {
    const bool ended = Record() && Await();
    if (!ended) hung_ = !(Record() && Await());
    result_.broken = result_.broken || hung_;
    return ended;
  }
  bool Record() {
    return Ok("cuEventRecord", Insist([&] { return driver_.event_record(event_, stream_); }));
  }
  bool Await() {
    const auto until = Steady::now() + within_;  // real world: as above
    for (int refused = 0;;) {
      const int code = driver_.event_query(event_);
      if (code == 0) return true;
      // The first error may be an older one; only a second counts.
      if (code != kGpuNotReady && ++refused > 1) return Ok("a copy", code);
      if (Steady::now() > until) return Fail("a copy did not end in time");  // real world: as above
      std::this_thread::sleep_for(std::chrono::microseconds(20));            // real world: as above
    }
  }
  void Clean() {
    const std::string why = std::move(result_.why_not);
    result_.why_not.clear();
    const VmmTrial times = result_;
    // If a chunk stays mapped, its memory and addresses must not be reused.
    const bool unmapped = UnmapAll();
    if (unmapped) ReleaseAll();
    if (host_ != nullptr) Insist([&] { return driver_.host_free(host_); });
    if (event_ != nullptr) Insist([&] { return driver_.event_destroy(event_); });
    if (stream_ != nullptr) Insist([&] { return driver_.stream_destroy(stream_); });
    if (range_ != 0 && unmapped)
      Insist([&] { return driver_.address_free(range_, kChunks * chunk_); });
    result_ = times;
    result_.why_not = why;
  }

  const GpuDriver& driver_;
  const int device_;
  const Bytes chunk_;
  const Duration within_;
  GpuAddress range_ = 0;
  GpuStream stream_ = nullptr;
  GpuEvent event_ = nullptr;
  void* host_ = nullptr;
  std::array<GpuHandle, kChunks> handles_{};
  std::array<bool, kChunks> mapped_{};
  bool hung_ = false;
  VmmTrial result_;
};

}  // namespace

VmmTrial TryVmm(const GpuDriver& driver, int device, Bytes chunk, Duration within) {
  if (!driver.has_vmm()) {
    VmmTrial none;
    none.why_not = fmt::format("{} has no virtual memory management", driver.library);
    return none;
  }
  return Trial(driver, device, chunk, within).Run();
}

}  // namespace spillway
