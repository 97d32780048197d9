// SPDX-License-Identifier: Apache-2.0
// Two programs for bench/gpu/giveback.py.
//
//   giveback cache [--host N] [--context N] [--no-behind] [--disk DIR]
//     a cache on the first GPU. It reads commands from stdin and answers each with one line of
//     JSON. Contexts are cut out of a pool of random bytes, each at another offset, so that all
//     differ and each can be compared afterwards.
//   giveback neighbour
//     another process on that GPU. All figures are measured here: from before the request until
//     the allocation has succeeded and its last byte is written.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "ask/client.h"
#include "base/parse.h"
#include "base/run_dir.h"
#include "bench/gpu/raw.h"
#include "spillway/cache.h"

namespace spillway::bench {
namespace {

constexpr Bytes kPool = kGiB;

struct Plan {
  Bytes host = 90 * kGiB;
  Bytes context = 256 * kMiB;
  bool behind = true;
  std::string disk;
  Bytes disk_bytes = 0;
  std::string device = "cuda:0";
};

Bytes Sized(const std::string& text) {
  const Result<Bytes> bytes = ParseBytes(text);
  if (!bytes) Stop(bytes.error().message);
  return *bytes;
}

class CacheSide {
 public:
  explicit CacheSide(const Plan& plan) : plan_(plan) {
    on_device_ = gpu_.Take(kPool);
    on_host_ = gpu_.TakePinned(kPool);
    std::mt19937_64 random(11);
    auto* words = reinterpret_cast<std::uint64_t*>(on_host_);
    for (Bytes i = 0; i < kPool / 8; ++i) words[i] = random();
    const GpuStream stream = gpu_.NewStream();
    Need("pool", gpu_.driver().copy_to_device(on_device_, on_host_, kPool, stream));
    gpu_.Wait(stream);
    Reopen();
  }

  void Run() {
    for (std::string line; std::getline(std::cin, line);) {
      std::istringstream words(line);
      std::string verb;
      std::uint64_t n = 0;
      words >> verb >> n;
      if (verb == "quit") break;
      Answer(verb, n);
      std::fflush(stdout);
    }
    Churn(false);
    cache_.reset();
  }

 private:
  static std::string Key(std::uint64_t n) { return "context:" + std::to_string(n); }
  // Where a context begins in the pool.
  Bytes Place0(std::uint64_t n) const { return n * 7919 * 4096 % kPool; }

  void Reopen() {
    cache_.reset();
    Options options;
    options.device = plan_.device;
    options.host_capacity = plan_.host;
    options.write_back_rate.reset();
    options.ttl.reset();
    if (!plan_.behind) {
      // Relief must not write back either: the memory asked for has to be copied first.
      options.write_back_after.reset();
      options.thresholds = {
          .normal = 0.990, .pressure = 0.993, .critical = 0.996, .emergency = 0.999};
    }
    if (!plan_.disk.empty()) options.disk_dir = plan_.disk;
    if (plan_.disk_bytes > 0) options.disk_capacity = plan_.disk_bytes;
    options.on_event = [this](const Event& event) {
      if (event.action == Action::kDestroy && event.reason != Reason::kErased &&
          event.reason != Reason::kReplaced) {
        ++destroyed_;
        fmt::print("destroyed off {}: {} at {}\n", event.tier, Name(event.reason),
                   Name(event.level));
      }
    };
    auto cache = Cache::Open(options);
    if (!cache) Stop(cache.error().message);
    cache_ = std::move(*cache);
    if (Status ok = cache_->Start(); !ok) Stop(ok.error().message);
    while (cache_->stats().device.total == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // real world: the first reading
    }
  }

  Status Set(std::uint64_t n) {
    std::vector<Fragment> fragments;
    Bytes at = Place0(n);
    for (Bytes left = plan_.context; left > 0;) {
      const Bytes take = std::min(left, kPool - at);
      // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of the device.
      fragments.push_back({reinterpret_cast<void*>(on_device_ + at), take, Place::kDevice});
      left -= take;
      at = (at + take) % kPool;
    }
    return cache_->Set(Key(n), Source(std::move(fragments)), {.tokens = 2048});
  }
  bool IsRight(std::uint64_t n, const std::byte* data) const {
    Bytes at = Place0(n);
    for (Bytes done = 0; done < plan_.context;) {
      const Bytes take = std::min(plan_.context - done, kPool - at);
      if (std::memcmp(data + done, on_host_ + at, take) != 0) return false;
      done += take;
      at = (at + take) % kPool;
    }
    return true;
  }
  bool OnDevice(std::uint64_t n) {
    const auto got = cache_->Get(Key(n), {.where = Place::kDevice, .wait = Duration::zero()});
    return got && *got;
  }
  bool Full() const {
    const Stats stats = cache_->stats();
    return stats.device.free < stats.device.reserve + plan_.context;
  }

  void Answer(const std::string& verb, std::uint64_t n) {
    if (verb == "fill") return Fill(n);
    if (verb == "up") return Up();
    if (verb == "backed") return Backed(n);
    if (verb == "verify") return Verify(n != 0);
    if (verb == "cycle") return Cycle(n);
    if (verb == "restore") return Restore(n, Place::kDevice);
    if (verb == "fetch") return Restore(n, Place::kHost);
    if (verb == "reopen") {
      const double took = Seconds([&] { Reopen(); });
      return fmt::print("{{\"reopen_s\":{:.3f}}}\n", took);
    }
    if (verb == "churn") {
      Churn(n != 0);
      return fmt::print("{{\"churn\":{}}}\n", n);
    }
    if (verb == "erase") {
      for (std::uint64_t i = 0; i < n && low_ < next_; ++i) cache_->Erase(Key(low_++));
      return fmt::print("{{\"low\":{}}}\n", low_.load());
    }
    Tell();
  }

  void Tell() {
    const Stats stats = cache_->stats();
    fmt::print(
        "{{\"total\":{},\"free\":{},\"held\":{},\"bytes\":{},\"backed\":{},\"others\":{},"
        "\"reserve\":{},\"level\":\"{}\",\"changes\":{},\"host_bytes\":{},\"host_held\":{},"
        "\"host_level\":\"{}\",\"disk_level\":\"{}\",\"disk_bytes\":{},\"entries\":{},"
        "\"destroyed\":{},\"moves\":{},\"read\":{},\"refused\":{}}"
        "}\n",
        stats.device.total, stats.device.free, stats.device.held, stats.device.bytes,
        stats.device.clean, stats.device.others, stats.device.reserve, Name(stats.device.level),
        stats.device.level_changes, stats.host.bytes, stats.host.held, Name(stats.host.level),
        Name(stats.disk.level), stats.disk.bytes, cache_->size(), destroyed_.load(),
        stats.moves.in_flight, read_.load(), refused_.load());
  }

  // Sets new contexts until there are `n` or, with 0, until the device is full.
  void Fill(std::uint64_t n) {
    std::uint64_t set = 0;
    std::string refused;
    const double took = Seconds([&] {
      while (n == 0 ? !Full() : set < n) {
        if (Status ok = Set(next_); !ok) {
          refused = ok.error().message;
          break;
        }
        ++next_;
        ++set;
      }
    });
    fmt::print("{{\"set\":{},\"contexts\":{},\"seconds\":{:.3f},\"refused\":\"{}\"}}\n", set,
               next_ - low_, took, refused);
  }

  // Reads contexts from lower tiers until the device is full.
  void Up() {
    std::uint64_t up = 0;
    const double took = Seconds([&] {
      for (std::uint64_t n = low_; n < next_ && !Full(); ++n) {
        if (OnDevice(n)) continue;
        const auto got = cache_->Get(Key(n), {.where = Place::kDevice});
        up += got && *got ? 1 : 0;
      }
    });
    fmt::print("{{\"up\":{},\"seconds\":{:.3f}}}\n", up, took);
  }

  void Backed(std::uint64_t within_s) {
    double share = 0;
    const double took = Seconds([&] {
      const auto end = Clock::now() + std::chrono::seconds(within_s);  // real world: as above
      do {
        const Stats stats = cache_->stats();
        share = stats.device.bytes == 0 ? 1
                                        : static_cast<double>(stats.device.clean) /
                                              static_cast<double>(stats.device.bytes);
        if (share >= 0.999) break;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));  // real world: as above
      } while (Clock::now() < end);  // real world: as above
    });
    fmt::print("{{\"backed\":{:.4f},\"seconds\":{:.3f}}}\n", share, took);
  }

  void Verify(bool any_may_miss) {
    std::atomic<std::uint64_t> next{low_.load()};
    std::atomic<std::uint64_t> right{0};
    std::atomic<std::uint64_t> wrong{0};
    std::atomic<std::uint64_t> missing{0};
    std::string why;
    const double took = Seconds([&] {
      std::vector<std::thread> threads;
      for (int i = 0; i < 8; ++i) {
        threads.emplace_back([&] {
          for (std::uint64_t n = next++; n < next_; n = next++) {
            const auto got = cache_->Get(Key(n), {.wait = std::chrono::seconds(60)});
            if (!got || !*got) {
              if (missing++ == 0) why = got ? "" : got.error().message;
            } else {
              ++(IsRight(n, (*got)->data()) ? right : wrong);
            }
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
    });
    static_cast<void>(any_may_miss);
    fmt::print("{{\"right\":{},\"wrong\":{},\"missing\":{},\"seconds\":{:.3f},\"why\":\"{}\"}}\n",
               right.load(), wrong.load(), missing.load(), took, why);
  }

  // Sets and erases contexts, small and large.
  void Cycle(std::uint64_t n) {
    std::uint64_t failed = 0;
    std::mt19937_64 random(5);
    const double took = Seconds([&] {
      for (std::uint64_t i = 0; i < n; ++i) {
        const Bytes bytes = 4 * kKiB + random() % (i % 100 == 0 ? 64 * kMiB : kMiB);
        // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of the device.
        std::vector<Fragment> one{{reinterpret_cast<void*>(on_device_), bytes, Place::kDevice}};
        const std::string key = "cycle:" + std::to_string(i % 64);
        failed += cache_->Set(key, Source(std::move(one))) ? 0 : 1;
        if (random() % 2 == 0) cache_->Erase(key);
      }
      for (int i = 0; i < 64; ++i) cache_->Erase("cycle:" + std::to_string(i));
    });
    fmt::print("{{\"cycles\":{},\"failed\":{},\"seconds\":{:.3f}}}\n", n, failed, took);
  }

  // Copies one context to the device, or to the host, from any tier.
  void Restore(std::uint64_t n, Place where) {
    std::string why;
    bool right = false;
    const double took = Seconds([&] {
      const auto got = cache_->Get(Key(n), {.where = where, .wait = std::chrono::seconds(120)});
      if (!got) why = got.error().message;
      right = got && *got;
    });
    fmt::print("{{\"restore_s\":{:.4f},\"gbs\":{:.2f},\"there\":{},\"why\":\"{}\"}}\n", took,
               static_cast<double>(plan_.context) / took / 1e9, right, why);
  }

  // Agents at work: reads contexts on the device and sets new ones.
  void Churn(bool on) {
    churning_ = on;
    if (!on) {
      if (churn_.joinable()) churn_.join();
      return;
    }
    churn_ = std::thread([this] {
      std::mt19937_64 random(9);
      while (churning_) {
        const std::uint64_t n = low_ + random() % std::max<std::uint64_t>(1, next_ - low_);
        const auto got = cache_->Get(Key(n), {.where = Place::kDevice});
        ++(got && *got ? read_ : refused_);
        // Idle memory is used at once.
        if (!got || !*got) {
          std::this_thread::sleep_for(std::chrono::milliseconds(2));  // real world: agents wait
        }
      }
    });
  }

  const Plan plan_;
  RawGpu gpu_;
  GpuAddress on_device_ = 0;
  std::byte* on_host_ = nullptr;
  std::atomic<std::uint64_t> destroyed_{0};
  std::unique_ptr<Cache> cache_;
  std::atomic<std::uint64_t> low_{0};
  std::atomic<std::uint64_t> next_{0};
  std::atomic<bool> churning_{false};
  std::atomic<std::uint64_t> read_{0};
  std::atomic<std::uint64_t> refused_{0};
  std::thread churn_;
};

class Neighbour {
 public:
  void Run() {
    stream_ = gpu_.NewStream();
    devices_ = RunDirsToSearch();
    for (std::string line; std::getline(std::cin, line);) {
      std::istringstream words(line);
      std::string verb;
      std::string size;
      words >> verb >> size;
      if (verb == "quit") break;
      if (verb == "free") {
        Free();
        fmt::print("{{\"free\":{}}}\n", FreeBytes());
      } else if (verb == "look") {
        fmt::print("{{\"free\":{}}}\n", FreeBytes());
      } else if (verb == "gone") {
        WaitFree(Sized(size));
      } else {
        Take(verb == "ask", Sized(size));
      }
      std::fflush(stdout);
    }
  }

 private:
  Bytes FreeBytes() {
    std::size_t free = 0;
    std::size_t total = 0;
    Need("info", gpu_.driver().memory_info(&free, &total));
    return free;
  }
  void WaitFree(Bytes bytes) {
    const double took = Seconds([&] {
      const auto end = Clock::now() + std::chrono::seconds(20);  // real world: as above
      while (FreeBytes() < bytes && Clock::now() < end) {
      }  // real world: as above
    });
    fmt::print("{{\"free\":{},\"seconds\":{:.4f}}}\n", FreeBytes(), took);
  }
  void Free() {
    for (const GpuAddress at : blocks_) gpu_.driver().memory_free(at);
    blocks_.clear();
    room_.reset();
  }
  // One allocation, written up to its last byte.
  void Take(bool ask, Bytes bytes) {
    Bytes freed = 0;
    double asked = 0;
    double allocated = 0;
    int code = 0;
    std::string why;
    const double took = Seconds([&] {
      if (ask) {
        asked = Seconds([&] {
          AskOptions options;
          options.run_dirs = devices_;
          const std::vector<std::string> devices = AskableDevices(devices_);
          if (devices.empty()) return;
          options.device = devices.front();
          options.bytes = bytes;
          options.keep = bytes;
          room_ = std::make_unique<AskedRoom>(spillway::Ask(options));
          freed = room_->freed();
          why = room_->why_not_more();
        });
      }
      allocated = Seconds([&] {
        GpuAddress at = 0;
        code = gpu_.driver().memory_alloc(&at, bytes);
        if (code == 0) blocks_.push_back(at);
      });
      if (code == 0) {
        Need("fill", gpu_.driver().fill(blocks_.back(), 0x5a, bytes, stream_));
        gpu_.Wait(stream_);
      }
    });
    fmt::print(
        "{{\"ms\":{:.3f},\"ask_ms\":{:.3f},\"alloc_ms\":{:.3f},\"code\":{},\"freed\":{},"
        "\"why\":\"{}\"}}\n",
        took * 1e3, asked * 1e3, allocated * 1e3, code, freed, why);
  }

  RawGpu gpu_;
  GpuStream stream_ = nullptr;
  std::vector<std::string> devices_;
  std::vector<GpuAddress> blocks_;
  std::unique_ptr<AskedRoom> room_;
};

}  // namespace
}  // namespace spillway::bench

int main(int argc, char** argv) {
  using namespace spillway::bench;
  CLI::App app("A cache on a GPU and its neighbour, for bench/gpu/giveback.py");
  app.require_subcommand(1);
  Plan plan;
  std::string host = "90GiB";
  std::string context = "256MiB";
  bool no_behind = false;
  CLI::App* const cache = app.add_subcommand("cache", "a cache; commands on stdin");
  cache->add_option("--host", host, "the host tier");
  cache->add_option("--context", context, "bytes of a context");
  cache->add_flag("--no-behind", no_behind, "nothing is copied down before it must be");
  cache->add_option("--disk", plan.disk, "folder of a disk tier");
  std::string disk_bytes;
  cache->add_option("--disk-bytes", disk_bytes, "most bytes of that");
  cache->add_option("--device", plan.device, "the device");
  app.add_subcommand("neighbour", "somebody else; commands on stdin");
  CLI11_PARSE(app, argc, argv);
  if (!cache->parsed()) {
    Neighbour().Run();
    return 0;
  }
  plan.host = Sized(host);
  plan.context = Sized(context);
  if (!disk_bytes.empty()) plan.disk_bytes = Sized(disk_bytes);
  plan.behind = !no_behind;
  CacheSide(plan).Run();
}
