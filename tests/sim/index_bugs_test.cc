// SPDX-License-Identifier: Apache-2.0
// Planted bugs of the index and of groups of keys, each with a check that shows it: the
// check passes on the engine as it is, and fails with the bug.
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/mutant.h"
#include "cache/direct.h"
#include "cache/flush.h"
#include "cache/parts.h"
#include "cache/testing/group_counts.h"
#include "cache/testing/scratch_folder.h"
#include "cache/testing/tiers_fixture.h"
#include "spillway/testing.h"

namespace spillway::sim {
namespace {

class WithBug {
 public:
  explicit WithBug(Mutant bug) { ActiveMutant() = bug; }
  ~WithBug() { ActiveMutant() = Mutant::kNone; }
  WithBug(const WithBug&) = delete;
  WithBug& operator=(const WithBug&) = delete;
};

struct Setting {
  int hash_bits = 64;
  HashSeed seed = {};
  std::string disk = {};
  bool load = true;  // Load what is on that disk.
};

std::unique_ptr<Cache> Open(const Setting& setting) {
  Options options;
  options.capacity = 16 * kMiB;
  options.pressure = std::make_shared<testing::ManualPressure>(16 * kMiB);
  options.key_group = &testing::GroupByLastByte;
  options.entries_max = 1 << 16;
  options.disk_dir = setting.disk;
  if (!setting.disk.empty()) {
    options.disk_capacity = 64 * kMiB;
    options.disk_pressure = std::make_shared<testing::ManualPressure>(64 * kMiB);
  }
  auto parts = OpenParts(options);
  if (!parts) throw std::runtime_error(parts.error().message);
  parts->hash_bits = setting.hash_bits;
  parts->hash_seed = setting.seed;
  parts->load = setting.load;
  auto core = Core::Open(options, std::move(*parts));
  if (!core) throw std::runtime_error(core.error().message);
  return Core::Wrap(std::move(*core));
}

Index& IndexOf(Cache& cache) { return Core::Of(cache)->engine().store().index(); }

void SetMany(Cache* cache, int keys) {
  Direct direct(cache);
  for (int i = 0; i < keys; ++i) {
    ASSERT_TRUE(direct.Set(fmt::format("key {}", i), "value", {}).status) << i;
  }
}

bool SeedsMakeOtherHashes() {
  const auto one = Open({.seed = {1, 2}});
  const auto other = Open({.seed = {1, 3}});
  return IndexOf(*one).HashOf("key") != IndexOf(*other).HashOf("key");
}

// All keys have one of four hashes.
bool WalksAreBounded() {
  const auto cache = Open({.hash_bits = 2});
  SetMany(cache.get(), 3000);
  return IndexOf(*cache).longest_walk() <= 64;
}

bool AllAreFound() {
  const auto cache = Open({.hash_bits = 2});
  SetMany(cache.get(), 300);
  for (int i = 0; i < 300; ++i) {
    if (!cache->Get(fmt::format("key {}", i))->has_value()) return false;
  }
  return true;
}

// Group 3 has more than half of all keys.
bool OthersStay() {
  const auto cache = Open({});
  Direct direct(cache.get());
  for (const std::string_view key : {"a3", "b3", "c3", "d4"}) {
    EXPECT_TRUE(direct.Set(key, "value", {}).status);
  }
  const std::uint8_t group = testing::GroupByLastByte("a3");
  direct.ClearGroup(group);
  return direct.Contains("d4") && !direct.Contains("a3") && direct.CountOf(group).entries == 0;
}

// All that is found on disk.
std::vector<std::vector<BlobStore::Found>> ReadDisk(Engine* engine) {
  struct All {
    std::mutex mutex;
    std::vector<std::vector<BlobStore::Found>> batches;
    std::promise<void> done;
  };
  const auto all = std::make_shared<All>();
  engine->store().disk()->StartLoading([all](std::vector<BlobStore::Found> found, bool done) {
    {
      const std::lock_guard lock(all->mutex);
      all->batches.push_back(std::move(found));
    }
    if (done) all->done.set_value();
  });
  const auto status = all->done.get_future().wait_for(std::chrono::seconds(60));
  EXPECT_EQ(status, std::future_status::ready);
  const std::lock_guard lock(all->mutex);
  return std::move(all->batches);
}

// Group 3 is cleared when the disk has been read but nothing is adopted yet.
bool AGroupClearedWhileLoadingStaysAway() {
  const testing::ScratchFolder scratch;
  Setting setting{.disk = (scratch / "disk").string()};
  auto cache = Open(setting);
  EXPECT_TRUE(testing::ComesTrue(*cache, [](const Stats& stats) { return !stats.loading; }));
  for (const std::string_view key : {"a3", "b3", "c3", "d4"}) {
    EXPECT_TRUE(cache->Set(key, Source(std::string_view("value")), {}));
  }
  EXPECT_EQ(FlushToDisk(cache.get(), std::chrono::seconds(60)).entries_left, 0U);
  EXPECT_TRUE(Cache::Close(std::move(cache)));

  setting.load = false;
  cache = Open(setting);
  Core* const core = Core::Of(*cache);
  Direct direct(cache.get());
  RunOn(core->strand(), [&] { core->engine().Loading(); });
  auto batches = ReadDisk(&core->engine());
  direct.ClearGroup(testing::GroupByLastByte("a3"));
  RunOn(core->strand(), [&] {
    for (std::size_t i = 0; i < batches.size(); ++i) {
      EXPECT_TRUE(core->engine().Adopt(&batches[i], i + 1 == batches.size(), core->clock().Now()));
    }
    EXPECT_EQ(testing::WrongCounts(core->engine().store()), "");
  });
  EXPECT_TRUE(direct.Contains("d4"));
  return !direct.Contains("a3") && direct.CountOf(testing::GroupByLastByte("a3")).entries == 0;
}

struct Planted {
  Mutant bug;
  std::string_view name;
  bool (*is_well)();
};
constexpr Planted kPlanted[] = {
    {Mutant::kSeedNotUsed, "SeedNotUsed", &SeedsMakeOtherHashes},
    {Mutant::kChainUnbounded, "ChainUnbounded", &WalksAreBounded},
    {Mutant::kSecondTableNotRead, "SecondTableNotRead", &AllAreFound},
    {Mutant::kGroupClearedByCount, "GroupClearedByCount", &OthersStay},
    {Mutant::kGroupComesBack, "GroupComesBack", &AGroupClearedWhileLoadingStaysAway},
};

class PlantedIndexBug : public ::testing::TestWithParam<Planted> {};

TEST_P(PlantedIndexBug, IsSeen) {
  EXPECT_TRUE(GetParam().is_well());
  const WithBug bug(GetParam().bug);
  EXPECT_FALSE(GetParam().is_well());
}

INSTANTIATE_TEST_SUITE_P(Each, PlantedIndexBug, ::testing::ValuesIn(kPlanted),
                         [](const ::testing::TestParamInfo<Planted>& one) {
                           return std::string(one.param.name);
                         });

}  // namespace
}  // namespace spillway::sim
