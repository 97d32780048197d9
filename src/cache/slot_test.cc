// SPDX-License-Identifier: Apache-2.0
#include "cache/slot.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/testing/sanitized.h"

namespace spillway {
namespace {

constexpr std::uint32_t kMany = 4 * SlotTable::kSlabSlots;

class SlotTableTest : public ::testing::Test {
 protected:
  void Open(std::uint64_t entries_max) {
    auto slots = SlotTable::Open(entries_max);
    ASSERT_TRUE(slots);
    slots_ = std::move(*slots);
  }
  std::vector<std::uint32_t> TakeAll() {
    std::vector<std::uint32_t> taken;
    for (std::uint32_t id = slots_->Take(); id != kNoSlot; id = slots_->Take()) {
      taken.push_back(id);
      slots_->record(id).generation = id + 1;
    }
    return taken;
  }
  // How much of the slots' memory is resident.
  std::size_t Resident() {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t bytes = slots_->capacity() * sizeof(Slot);
    std::vector<unsigned char> there((bytes + page - 1) / page);
    EXPECT_EQ(mincore(&slots_->slot(0), bytes, there.data()), 0);
    std::size_t pages = 0;
    for (const unsigned char one : there) pages += one & 1;
    return pages * page;
  }
  std::unique_ptr<SlotTable> slots_;
};

TEST_F(SlotTableTest, EachSlotIsGivenOnce) {
  Open(kMany + 77);
  std::vector<std::uint32_t> taken = TakeAll();
  EXPECT_EQ(taken.size(), kMany + 77);
  EXPECT_EQ(std::set<std::uint32_t>(taken.begin(), taken.end()).size(), taken.size());
  for (const std::uint32_t id : taken) slots_->Give(id);
  EXPECT_EQ(slots_->in_use(), 0U);
  EXPECT_EQ(TakeAll().size(), kMany + 77);
}

TEST_F(SlotTableTest, TheOneGivenLastIsTakenFirst) {
  Open(1000);
  const std::uint32_t one = slots_->Take();
  const std::uint32_t two = slots_->Take();
  slots_->Give(one);
  slots_->Give(two);
  EXPECT_EQ(slots_->Take(), two);
  EXPECT_EQ(slots_->Take(), one);
}

TEST_F(SlotTableTest, ASlabThatNobodyUsesGivesItsMemoryBack) {
  Open(kMany);
  const std::vector<std::uint32_t> taken = TakeAll();
  const std::size_t full = Resident();
  ASSERT_GE(full, kMany * sizeof(Slot) / 2);
  // One in the second slab stays taken.
  const std::uint32_t stays = 2 * SlotTable::kSlabSlots;
  for (const std::uint32_t id : taken) {
    if (id != stays) slots_->Give(id);
  }
  slots_->Trim();
  if (slots_->high_water() == kMany) GTEST_SKIP() << "this kernel has no MREMAP_DONTUNMAP";
  EXPECT_LE(Resident(), full / 2);
  EXPECT_TRUE(slots_->IsTaken(stays));
  EXPECT_GT(slots_->high_water(), stays);
  EXPECT_LE(slots_->high_water(), stays + SlotTable::kSlabSlots);
  // All of them can be taken again, except that one.
  const std::vector<std::uint32_t> again = TakeAll();
  EXPECT_EQ(again.size(), kMany - 1);
  std::set<std::uint32_t> different(again.begin(), again.end());
  EXPECT_EQ(different.size(), again.size());
  EXPECT_FALSE(different.contains(stays));
  for (const std::uint32_t id : again) {
    ASSERT_EQ(LeaseWord::StateOf(slots_->slot(id).word.Load()), SlotState::kPrivate);
  }
}

// Late readers add to a lease word and take that back while the memory under it is
// exchanged: nothing of it may remain.
TEST_F(SlotTableTest, WhoComesTooLateLeavesNoTrace) {
  constexpr std::uint32_t kFrom = SlotTable::kSlabSlots;
  Open(kMany);
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> got{0};
  std::vector<std::thread> late;
  for (std::uint32_t reader = 0; reader < 2; ++reader) {
    late.emplace_back([&, reader] {
      for (std::uint32_t at = reader; !stop.load(std::memory_order_relaxed); at += 61) {
        LeaseWord& word = slots_->slot(kFrom + at % 64).word;
        if (word.Acquire() == LeaseWord::Got::kYes) got.fetch_add(1);
      }
    });
  }
  constexpr int kRounds = kSanitized ? 20 : 300;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::uint32_t> taken;
    while (slots_->in_use() < kFrom + 128) taken.push_back(slots_->Take());
    for (const std::uint32_t id : taken) slots_->Give(id);
    slots_->Trim();
  }
  stop = true;
  for (std::thread& reader : late) reader.join();
  EXPECT_EQ(got.load(), 0U);  // None was ever visible.
  for (std::uint32_t at = 0; at < 64; ++at) {
    const std::uint64_t word = slots_->slot(kFrom + at).word.Load();
    EXPECT_EQ(LeaseWord::LeasesOf(word), 0U) << at;
    EXPECT_NE(LeaseWord::StateOf(word), SlotState::kZombie) << at;
  }
}

}  // namespace
}  // namespace spillway
