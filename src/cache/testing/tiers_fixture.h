// SPDX-License-Identifier: Apache-2.0
// A cache on all three tiers: the embedded card, a host pool and a real folder.
// Pressure by hand; time by the machine's clock, since transfers run on threads.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/mutex.h"
#include "cache/core.h"
#include "cache/parts.h"
#include "cache/testing/scratch_folder.h"
#include "spillway/cache.h"
#include "spillway/testing.h"

namespace spillway::testing {

// Bytes that identify their key and generation: any two values differ.
inline std::string Bulk(std::string_view key, std::size_t bytes, unsigned generation = 0) {
  std::string value(bytes, '\0');
  std::uint64_t state = 0x9e3779b97f4a7c15ULL * (generation + 1);
  for (const char c : key) state = (state ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  for (std::size_t at = 0; at < bytes; at += sizeof state) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    std::memcpy(value.data() + at, &state, std::min(sizeof state, bytes - at));
  }
  return value;
}

// Waits until `holds` returns true; false: not in time.
template <typename Holds>
bool ComesTrue(Cache& cache, Holds&& holds) {
  // real world: transfers run on threads, and there is no signal when the last is done
  for (int looks = 0; looks < 5000; ++looks) {
    if (holds(cache.stats())) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // real world: as above
  }
  return false;
}
inline bool IsAllBacked(const Stats& stats) {
  return stats.device.bytes == stats.device.clean && stats.host.bytes == stats.host.clean &&
         stats.moves.in_flight == 0;
}

class TiersTest : public ::testing::Test {
 protected:
  struct Told {
    std::string key;
    std::string tier;
    Action action;
    Reason reason;
  };

  TiersTest() {
    options_.capacity = 8 * kMiB;
    options_.host_capacity = 16 * kMiB;
    options_.disk_dir = (scratch_ / "disk").string();
    options_.disk_capacity = 64 * kMiB;
    options_.write_back_after = Duration::zero();
    options_.write_back_rate.reset();
    options_.ttl.reset();
    // Nothing grows while a sample is late, so this is longer than a busy machine is
    // late.
    options_.sample_period = std::chrono::milliseconds(250);
  }
  ~TiersTest() override { cache_.reset(); }

  Cache& Open() {
    Options options = options_;
    options.pressure = device_pressure_;
    options.host_pressure = host_pressure_;
    options.disk_pressure = disk_pressure_;
    options.on_event = [this](const Event& event) {
      const MutexLock lock(told_mutex_);
      told_.push_back(
          {std::string(event.key), std::string(event.tier), event.action, event.reason});
    };
    auto parts = OpenParts(options, seams_);
    if (!parts) throw std::runtime_error(parts.error().message);
    auto core = Core::Open(options, std::move(*parts));
    if (!core) throw std::runtime_error(core.error().message);
    cache_ = Core::Wrap(std::move(*core));
    return *cache_;
  }
  Status Set(std::string_view key, const std::string& value, SetOptions options = {}) {
    return cache_->Set(key, Source(value), options);
  }
  std::string Get(std::string_view key) {
    auto got = cache_->Get(key);
    if (!got) return "(error) " + got.error().message;
    return *got ? std::string((*got)->text()) : "(miss)";
  }
  // Waits until no transfer is in flight and `holds` returns true; false: not in time.
  template <typename Holds>
  bool Eventually(Holds&& holds) {
    return ComesTrue(*cache_, holds);
  }
  bool AllBacked() { return Eventually(&IsAllBacked); }
  std::vector<Told> TakeTold() {
    const MutexLock lock(told_mutex_);
    return std::exchange(told_, {});
  }
  std::size_t Count(const std::vector<Told>& told, Action action) {
    std::size_t count = 0;
    for (const Told& one : told) count += one.action == action ? 1 : 0;
    return count;
  }

  const ScratchFolder scratch_;
  std::shared_ptr<ManualPressure> device_pressure_ = std::make_shared<ManualPressure>(8 * kMiB);
  std::shared_ptr<ManualPressure> host_pressure_ = std::make_shared<ManualPressure>(16 * kMiB);
  std::shared_ptr<ManualPressure> disk_pressure_ = std::make_shared<ManualPressure>(64 * kMiB);
  Options options_;
  Seams seams_;  // The machine's own, unless a test changes them.
  Mutex told_mutex_;
  std::vector<Told> told_ SPILLWAY_GUARDED_BY(told_mutex_);
  std::unique_ptr<Cache> cache_;
};

}  // namespace spillway::testing
