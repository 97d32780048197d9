// SPDX-License-Identifier: Apache-2.0
// Copies between device and host, ours and raw ones in one run: whole values, both directions at
// once, scattered fragments, and the slowdown of a running GEMM. Ours compute and verify checksums;
// the cores this takes are printed.
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include <fmt/format.h>

#include "bench/gpu/raw.h"
#include "device/gpu/gpu_device.h"
#include "device/host/host_pool.h"
#include "monitor/machine.h"
#include "tier/seal_crew.h"

namespace spillway::bench {
namespace {

constexpr Bytes kValue = 4 * kGiB;

double CoreSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Side {
  double rate = 0;   // GB/s
  double cores = 0;  // Busy during the copy.
};

Side Measure(Bytes bytes, const std::function<void()>& work, int runs = 5) {
  work();
  std::vector<double> times;
  const double before = CoreSeconds();
  const double all = Seconds([&] {
    for (int i = 0; i < runs; ++i) times.push_back(Seconds(work));
  });
  return {static_cast<double>(bytes) / Percentile(times, 0.5) / 1e9,
          (CoreSeconds() - before) / all};
}

void Row(std::string_view what, const Side& ours, std::string_view other, const Side& theirs) {
  fmt::print("{:44} {:6.1f} GB/s ({:.1f} cores)  {:>22} {:6.1f} GB/s  ratio {:.3f}\n", what,
             ours.rate, ours.cores, other, theirs.rate, ours.rate / theirs.rate);
  std::fflush(stdout);
}

class Bench {
 public:
  Bench() {
    GpuDeviceOptions options;
    options.libraries = Machine::FromEnvironment().cuda;
    auto device = GpuDevice::Open(options);
    if (!device) Stop(device.error().message);
    device_ = std::move(*device);
    HostPoolOptions pool;
    pool.capacity = 2 * kValue;
    pool.listener = device_->pins();
    pool.eager = true;
    pool.chunk_bytes = 32 * kMiB;
    host_ = HostPool::Open(pool).value();
    on_device_ = Map(device_.get(), 2 * kValue);
    on_host_ = Map(host_.get(), 2 * kValue);
    std::mt19937_64 random(7);
    auto* words = reinterpret_cast<std::uint64_t*>(on_host_);
    for (Bytes i = 0; i < 2 * kValue / 8; ++i) words[i] = random();
    Check(device_->CopyIn(on_device_, Source(on_host_, 2 * kValue)));
    sealed_ = SealCrew::Job(&crew_, on_host_ + kValue, kValue).Finish();
    raw_host_ = raw_.TakePinned(kValue);
    raw_host2_ = raw_.TakePinned(kValue);
    raw_down_ = raw_.NewStream();
    raw_up_ = raw_.NewStream();
    fmt::print("{} ({}), driver {}, {} registered, gather kernel {}\n", device_->model(),
               device_->id(), device_->driver().version, device_->registered(),
               device_->ledger().staging);
  }

  void Whole() {
    const Side raw_down = Measure(kValue, [&] { RawDown(); });
    const Side raw_up = Measure(kValue, [&] { RawUp(); });
    const Side down = Measure(kValue, [&] { Down(); });
    const Side up = Measure(kValue, [&] { Up(); });
    Row("device to host, 4 GiB, sealed", down, "raw pinned", raw_down);
    const Side there = Measure(kValue, [&] { UpVerifiedThere(); });
    Row("host to device, 4 GiB, verified on the device", there, "raw pinned", raw_up);
    Row("host to device, 4 GiB, verified by the host", up, "raw pinned", raw_up);
    const Side raw_both = Measure(2 * kValue, [&] {
      Need("raw", raw_.driver().copy_to_host(raw_host_, Address(on_device_), kValue, raw_down_));
      Need("raw",
           raw_.driver().copy_to_device(Address(on_device_) + kValue, raw_host2_, kValue, raw_up_));
      raw_.Wait(raw_down_);
      raw_.Wait(raw_up_);
    });
    const Side both = Measure(2 * kValue, [&] {
      std::thread other([&] { UpVerifiedThere(); });
      Down();
      other.join();
    });
    Row("both ways at once, sum", both, "raw pinned", raw_both);
  }

  void Pieces(Bytes piece) {
    const std::size_t count = kGiB / piece;
    std::vector<std::size_t> places(2 * count);
    std::iota(places.begin(), places.end(), 0);
    std::shuffle(places.begin(), places.end(), std::mt19937_64(3));
    std::vector<Fragment> from;
    std::vector<MutableFragment> to;
    for (std::size_t i = 0; i < count; ++i) {
      std::byte* const at = on_device_ + places[i] * piece;
      from.push_back({at, piece, Place::kDevice});
      to.push_back({at, piece, Place::kDevice});
    }
    const Source source(from);
    const Sink sink(to);
    const Side raw_down = Measure(kGiB, [&] {
      Need("raw", raw_.driver().copy_to_host(raw_host_, Address(on_device_), kGiB, raw_down_));
      raw_.Wait(raw_down_);
    });
    const Side loop = Measure(
        kGiB,
        [&] {
          for (std::size_t i = 0; i < count; ++i) {
            Need("raw", raw_.driver().copy_to_host(raw_host_ + i * piece, Address(from[i].data),
                                                   piece, raw_down_));
          }
          raw_.Wait(raw_down_);
        },
        2);
    const Side batch = Measure(kGiB, [&] { Batch(from, piece); }, 3);
    const Side ours = Measure(kGiB, [&] { Check(device_->CopyIn(on_host_, source)); });
    const Side back = Measure(kGiB, [&] { Check(device_->CopyOut(on_host_, kGiB, sink)); });
    const std::string name = fmt::format("{} KiB pieces", piece / kKiB);
    Row(name + ", device to host", ours, "raw pinned, one piece", raw_down);
    Row(name + ", device to host", ours, "loop of copies", loop);
    Row(name + ", device to host", ours, "batch call", batch);
    Row(name + ", host to device", back, "raw pinned, one piece", raw_down);
  }

  void Beside() {
    Gemm gemm(&raw_);
    if (!gemm.missing().empty()) {
      fmt::print("no GEMM to run beside: {}\n", gemm.missing());
      return;
    }
    std::vector<std::size_t> places(kGiB / (32 * kKiB) * 2);
    std::iota(places.begin(), places.end(), 0);
    std::shuffle(places.begin(), places.end(), std::mt19937_64(3));
    std::vector<Fragment> from;
    for (std::size_t i = 0; i < places.size() / 2; ++i) {
      from.push_back({on_device_ + places[i] * 32 * kKiB, 32 * kKiB, Place::kDevice});
    }
    const Source scattered(from);
    for (int round = 0; round < 1; ++round) {
      const double alone = gemm.Run(std::chrono::seconds(3));
      const auto with = [&](std::string_view what, Bytes bytes, const std::function<void()>& work) {
        std::atomic<bool> stop{false};
        std::atomic<std::uint64_t> copies{0};
        double seconds = 0;
        std::thread other([&] {
          seconds = Seconds([&] {
            while (!stop) {
              work();
              ++copies;
            }
          });
        });
        const double rate = gemm.Run(std::chrono::seconds(3));
        stop = true;
        other.join();
        fmt::print(
            "GEMM {:.1f} TFLOP/s alone, {:.1f} beside {} ({:+.2f} %), which ran at {:.1f} "
            "GB/s\n",
            alone, rate, what, (rate / alone - 1) * 100,
            static_cast<double>(copies * bytes) / seconds / 1e9);
        std::fflush(stdout);
      };
      with("offload of whole values", kValue, [&] { Down(); });
      with("restore of whole values, verified on the device", kValue, [&] { UpVerifiedThere(); });
      with("restore of whole values, verified by the host", kValue, [&] { Up(); });
      with("offload of 32 KiB pieces", kGiB, [&] { Check(device_->CopyIn(on_host_, scattered)); });
    }
  }

 private:
  static GpuAddress Address(const void* at) { return reinterpret_cast<GpuAddress>(at); }
  static void Check(const Status& status) {
    if (!status) Stop(status.error().message);
  }
  static std::byte* Map(Device* device, Bytes bytes) {
    const Result<std::byte*> base = device->ReserveRange(bytes);
    if (!base) Stop(base.error().message);
    for (Bytes at = 0; at < bytes; at += device->chunk_bytes()) Check(device->MapChunk(*base + at));
    return *base;
  }
  void RawDown() {
    Need("raw", raw_.driver().copy_to_host(raw_host_, Address(on_device_), kValue, raw_down_));
    raw_.Wait(raw_down_);
  }
  void RawUp() {
    Need("raw", raw_.driver().copy_to_device(Address(on_device_), raw_host_, kValue, raw_up_));
    raw_.Wait(raw_up_);
  }
  void Down() {
    SealCrew::Job job(&crew_, on_host_, kValue);
    Check(device_->CopyToHost(on_device_, kValue, on_host_, [&](Bytes arrived) {
      job.Arrived(arrived);
      return true;
    }));
    static_cast<void>(job.Finish());
  }
  void UpVerifiedThere() {
    std::vector<Hash128> hashes;
    Check(device_->CopyFromHost(
        on_device_ + kValue, on_host_ + kValue, kValue, [](Bytes) { return true; }, &hashes));
    if (hashes != sealed_.pieces()) Stop("the device's checksums are not the host's");
  }
  void Up() {
    SealCrew::Job job(&crew_, on_host_ + kValue, kValue);
    job.Arrived(kValue);
    Check(device_->CopyFromHost(
        on_device_ + kValue, on_host_ + kValue, kValue, [](Bytes) { return true; }, nullptr));
    static_cast<void>(job.Finish());
  }
  void Batch(const std::vector<Fragment>& from, Bytes piece) {
    std::vector<GpuAddress> to;
    std::vector<GpuAddress> source;
    std::vector<std::size_t> bytes(from.size(), piece);
    for (std::size_t i = 0; i < from.size(); ++i) {
      to.push_back(Address(raw_host_) + i * piece);
      source.push_back(Address(from[i].data));
    }
    GpuCopyKind kind;
    std::size_t first = 0;
    if (raw_.driver().copy_batch_v2 == nullptr) return;
    Need("batch", raw_.driver().copy_batch_v2(to.data(), source.data(), bytes.data(), bytes.size(),
                                              &kind, &first, 1, raw_down_));
    raw_.Wait(raw_down_);
  }

  RawGpu raw_;
  std::unique_ptr<GpuDevice> device_;
  std::unique_ptr<HostPool> host_;
  SealCrew crew_{SealCrew::ThreadsFor(std::thread::hardware_concurrency())};
  Seal sealed_;  // Checksum of the second half on the host.
  std::byte* on_device_ = nullptr;
  std::byte* on_host_ = nullptr;
  std::byte* raw_host_ = nullptr;
  std::byte* raw_host2_ = nullptr;
  GpuStream raw_down_ = nullptr;
  GpuStream raw_up_ = nullptr;
};

}  // namespace
}  // namespace spillway::bench

int main() {
  // Its mappings end with the process.
  auto* const bench = new spillway::bench::Bench();
  bench->Whole();
  bench->Pieces(32 * spillway::kKiB);
  bench->Pieces(8 * spillway::kKiB);
  bench->Beside();
  std::fflush(stdout);
  std::_Exit(0);
}
