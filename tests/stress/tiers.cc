// SPDX-License-Identifier: Apache-2.0
// Three tiers under several threads: sets, gets, erases and batches while pressure
// rises and falls in every tier. Each thread has keys of its own; none of its values
// may be lost, older or wrong.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "spillway/cache.h"
#include "spillway/testing.h"
#include "stress/phases.h"
#include "stress/value.h"

namespace spillway::stress {

namespace {

constexpr std::size_t kKeysEach = 40;
constexpr Bytes kValueMost = 192 * kKiB;

struct Pressures {
  std::shared_ptr<testing::ManualPressure> device =
      std::make_shared<testing::ManualPressure>(4 * kMiB);
  std::shared_ptr<testing::ManualPressure> host =
      std::make_shared<testing::ManualPressure>(8 * kMiB);
  std::shared_ptr<testing::ManualPressure> disk =
      std::make_shared<testing::ManualPressure>(256 * kMiB);
};

class TierWorker {
 public:
  TierWorker(unsigned number, Board* board, Cache* cache, const Pressures* pressures)
      : number_(number),
        board_(board),
        cache_(cache),
        pressures_(pressures),
        random_(number + 77) {}

  void Run(std::uint64_t ops) {
    for (std::uint64_t i = 0; i < ops; ++i) One();
    leases_.clear();
  }
  // No value of this thread is lost.
  void CheckAll() {
    for (std::size_t key = 0; key < kKeysEach; ++key) Get(key, true);
  }
  std::uint64_t sets() const { return sets_; }
  std::uint64_t gets() const { return gets_; }

 private:
  std::size_t Id(std::size_t key) const { return number_ * kKeysEach + key; }
  std::string_view Name(std::size_t key) const { return board_->keys[Id(key)]; }

  void One() {
    const std::size_t key = random_.Below(kKeysEach);
    switch (random_.Below(16)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return Set(key);
      case 4:
        if (random_.OneIn(8)) Erase(key);
        return;
      case 5:
        cache_->Touch(Name(key));
        return;
      case 6:
        return Batch();
      case 7:
        return Disturb();
      default:
        return Get(key, false);
    }
  }

  void Set(std::size_t key) {
    const std::uint64_t count = ++counts_[key];
    FillValue(Id(key), count, 1 + random_.Below(kValueMost), &value_);
    const Status set = cache_->Set(Name(key), Source(value_.data(), value_.size()));
    if (set) {
      there_[key] = count;
      ++sets_;
    } else if (set.error().code != Code::kBlocked) {
      board_->Fail(fmt::format("set: {}", set.error().message));
    }
  }

  void Get(std::size_t key, bool last) {
    const Result<std::optional<Lease>> got = cache_->Get(Name(key));
    ++gets_;
    if (!got) {
      // Staging buffers are bounded: Busy is a valid answer, but not at the end.
      if (last || got.error().code != Code::kBusy) board_->Fail("get: " + got.error().message);
      return;
    }
    if (!*got) {
      if (there_[key] != 0) {
        board_->Fail(fmt::format("'{}' is lost: {}", Name(key), cache_->Explain(Name(key))));
        there_[key] = 0;
      }
      return;
    }
    Check(key, **got);
    if (!last && random_.OneIn(10)) {
      if (leases_.size() > 8) leases_.clear();
      leases_.push_back(std::move(const_cast<std::optional<Lease>&>(*got).value()));
    }
  }

  void Check(std::size_t key, const Lease& lease) {
    const Checked checked = CheckValue(Id(key), lease.data(), lease.size());
    if (!checked.whole) board_->Fail(fmt::format("'{}': wrong bytes", Name(key)));
    // Values of a few bytes can't carry a count.
    if (checked.count && *checked.count != there_[key]) {
      board_->Fail(
          fmt::format("'{}': value {}, expected {}", Name(key), *checked.count, there_[key]));
    }
  }

  void Erase(std::size_t key) {
    const bool was = cache_->Erase(Name(key));
    if (was != (there_[key] != 0)) board_->Fail("erase: it was there, or was not");
    there_[key] = 0;
  }

  void Batch() {
    std::vector<Operation> operations(4);
    std::vector<std::size_t> keys;
    for (Operation& operation : operations) {
      keys.push_back(random_.Below(kKeysEach));
      operation.kind = Operation::Kind::kGet;
      operation.key = Name(keys.back());
    }
    std::atomic<bool> done{false};
    cache_->Submit(operations.data(), operations.size(), std::chrono::seconds(60), Completion([&] {
                     done.store(true);
                     done.notify_one();
                   }));
    done.wait(false);
    for (std::size_t i = 0; i < operations.size(); ++i) {
      const Operation& operation = operations[i];
      if (!operation.status) {
        if (operation.status.error().code != Code::kBusy) {
          board_->Fail("batch: " + operation.status.error().message);
        }
        continue;
      }
      if (operation.found) Check(keys[i], operation.lease);
      if (!operation.found && there_[keys[i]] != 0) board_->Fail("batch: lost");
    }
  }

  void Disturb() {
    if (!random_.OneIn(20)) return;
    const auto any = [&]() -> std::optional<double> {
      if (random_.OneIn(12)) return std::nullopt;
      return static_cast<double>(random_.Below(99)) / 100;
    };
    pressures_->device->Set(any());
    if (random_.OneIn(2)) pressures_->host->Set(any());
    if (random_.OneIn(6)) pressures_->disk->Set(static_cast<double>(random_.Below(60)) / 100);
    if (random_.OneIn(3)) static_cast<void>(cache_->Reclaim(kMiB, std::chrono::milliseconds(5)));
    if (random_.OneIn(3)) static_cast<void>(cache_->Explain(Name(0)));
    if (random_.OneIn(3)) static_cast<void>(cache_->stats());
    const std::string_view key = Name(random_.Below(kKeysEach));
    if (random_.OneIn(2)) cache_->Prefetch(&key, 1);
  }

  const unsigned number_;
  Board* const board_;
  Cache* const cache_;
  const Pressures* const pressures_;
  Random random_;
  std::vector<std::byte> value_;
  std::vector<Lease> leases_;
  std::array<std::uint64_t, kKeysEach> counts_{};
  std::array<std::uint64_t, kKeysEach> there_{};  // The set that a get must return; 0: none.
  std::uint64_t sets_ = 0;
  std::uint64_t gets_ = 0;
};

}  // namespace

void RunTiers(Board* board, std::uint64_t ops) {
  std::string pattern =
      (std::filesystem::temp_directory_path() / "spillway-stress-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) return board->Fail("no scratch folder");
  const Pressures pressures;
  Options options;
  options.capacity = 4 * kMiB;
  options.host_capacity = 8 * kMiB;
  options.disk_dir = pattern + "/disk";
  options.disk_capacity = 256 * kMiB;
  options.pressure = pressures.device;
  options.host_pressure = pressures.host;
  options.disk_pressure = pressures.disk;
  options.write_back_after = std::chrono::milliseconds(1);
  options.write_back_rate.reset();
  options.sample_period = std::chrono::milliseconds(2);
  options.room_wait = std::chrono::minutes(2);
  options.ttl = std::chrono::seconds(2);
  std::uint64_t sets = 0;
  std::uint64_t gets = 0;
  {
    Result<std::unique_ptr<Cache>> cache = Cache::Open(options);
    if (!cache) return board->Fail(cache.error().message);
    if (!(*cache)->Start()) return board->Fail("start");
    std::vector<std::unique_ptr<TierWorker>> workers;
    for (unsigned i = 0; i < board->settings.threads; ++i) {
      workers.push_back(std::make_unique<TierWorker>(i, board, cache->get(), &pressures));
    }
    std::vector<std::thread> threads;
    for (const auto& worker : workers) {
      threads.emplace_back([&] { worker->Run(ops / board->settings.threads); });
    }
    for (std::thread& thread : threads) thread.join();
    pressures.device->Set(0.1);
    pressures.host->Set(0.1);
    pressures.disk->Set(0.1);
    for (const auto& worker : workers) {
      worker->CheckAll();
      sets += worker->sets();
      gets += worker->gets();
    }
    const Stats stats = (*cache)->stats();
    fmt::print(
        "tiers: {} sets, {} gets, {} fetches, {} down, {} up, {} promoted, {} cancelled, "
        "{} corrupt\n",
        sets, gets, stats.moves.fetches, stats.moves.bytes_down, stats.moves.bytes_up,
        stats.moves.promoted, stats.moves.cancelled, stats.moves.corrupt);
    if (stats.moves.corrupt != 0) board->Fail("a move damaged something");
    (*cache)->Clear();
    // real world: transfers run on threads, and the last ones are being cancelled
    Stats cleared = (*cache)->stats();
    for (int looks = 0; looks < 5000; ++looks) {
      cleared = (*cache)->stats();
      if (cleared.moves.in_flight == 0 && cleared.moves.staging_bytes == 0) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // real world: as above
    }
    for (const TierStats* tier : {&cleared.device, &cleared.host, &cleared.disk}) {
      if (tier->bytes != 0 || tier->clean != 0 || tier->entries != 0) {
        board->Fail(fmt::format("{}: {} bytes, {} backed, {} entries after clear", tier->name,
                                tier->bytes, tier->clean, tier->entries));
      }
    }
    if (cleared.leases != 0) board->Fail(fmt::format("{} leases at the end", cleared.leases));
    if (cleared.moves.staging_bytes != 0) board->Fail("passing memory at the end");
  }
  std::error_code ignored;
  std::filesystem::remove_all(pattern, ignored);
}

}  // namespace spillway::stress
