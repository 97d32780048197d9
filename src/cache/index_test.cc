// SPDX-License-Identifier: Apache-2.0
#include "cache/index.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/testing/sanitized.h"
#include "cache/slot.h"

namespace spillway {
namespace {

// An index with its slots, and the part of a store that linking needs. Keys are
// eight-byte numbers.
class IndexTest : public ::testing::Test {
 protected:
  void Open(std::uint64_t entries_max, int hash_bits = 64, HashSeed seed = {}) {
    auto slots = SlotTable::Open(entries_max);
    ASSERT_TRUE(slots);
    slots_ = std::move(*slots);
    auto index = Index::Open(slots_.get(), hash_bits, seed);
    ASSERT_TRUE(index);
    index_ = std::move(*index);
  }

  static std::string_view KeyOf(const std::uint64_t& number) {
    return {reinterpret_cast<const char*>(&number), sizeof number};
  }

  static std::uint8_t GroupOf(std::uint64_t number) {
    return static_cast<std::uint8_t>(number % 1000 == 7 ? 3 : 0);
  }

  // A slot with that key, written but not linked.
  std::uint32_t Make(std::uint64_t number) {
    const std::uint32_t id = slots_->Take();
    Slot& slot = slots_->slot(id);
    slot.key_bytes_less_one = sizeof number - 1;
    std::memcpy(slot.inline_key, &number, sizeof number);
    slot.hash.store(index_->HashOf(KeyOf(number)), std::memory_order_relaxed);
    slot.SetGroup(GroupOf(number));
    slot.has_deadline = false;
    return id;
  }

  std::uint32_t Insert(std::uint64_t number) {
    const std::uint32_t id = Make(number);
    slots_->slot(id).word.Publish(1);
    index_->Link(id);
    return id;
  }

  // As the engine removes an entry that is not leased. False: it is leased.
  bool TryRemove(std::uint32_t id) {
    if (!slots_->slot(id).word.TryEvict()) return false;
    index_->Unlink(id);
    slots_->Give(id);
    return true;
  }

  bool Finds(std::uint64_t number) const {
    Slot* reap = nullptr;
    Slot* slot =
        index_->Find(index_->HashOf(KeyOf(number)), KeyOf(number), Index::Use::kPeek, &reap);
    EXPECT_EQ(reap, nullptr);
    if (slot == nullptr) return false;
    const bool right = slot->KeyIs(KeyOf(number));
    slot->word.Release();
    return right;
  }

  std::uint32_t Lookup(std::uint64_t number) const {
    return index_->Lookup(index_->HashOf(KeyOf(number)), KeyOf(number));
  }

  std::unique_ptr<SlotTable> slots_;
  std::unique_ptr<Index> index_;
};

TEST_F(IndexTest, FindsWhatIsLinkedAndNothingElse) {
  Open(100);
  const std::uint32_t one = Insert(1);
  const std::uint32_t two = Insert(2);
  EXPECT_TRUE(Finds(1));
  EXPECT_TRUE(Finds(2));
  EXPECT_FALSE(Finds(3));
  EXPECT_EQ(Lookup(1), one);
  EXPECT_EQ(Lookup(2), two);
  EXPECT_EQ(Lookup(3), kNoSlot);
  ASSERT_TRUE(TryRemove(one));
  EXPECT_FALSE(Finds(1));
  EXPECT_EQ(Lookup(1), kNoSlot);
  EXPECT_TRUE(Finds(2));
}

TEST_F(IndexTest, AReservationIsNotFound) {
  Open(100);
  const std::uint32_t id = Make(1);
  EXPECT_FALSE(Finds(1));
  EXPECT_EQ(Lookup(1), kNoSlot);
  slots_->slot(id).word.Publish(1);
  index_->Link(id);
  EXPECT_TRUE(Finds(1));
}

TEST_F(IndexTest, CountsAGetAndNotAPeek) {
  Open(100);
  Slot& slot = slots_->slot(Insert(1));
  const auto accesses = [&] { return LeaseWord::AcquiresOf(slot.word.Load()); };
  EXPECT_TRUE(Finds(1));
  EXPECT_EQ(accesses(), 1U);
  Slot* reap = nullptr;
  ASSERT_EQ(index_->Find(index_->HashOf(KeyOf(1)), KeyOf(1), Index::Use::kCount, &reap), &slot);
  EXPECT_EQ(accesses(), 2U);
  EXPECT_EQ(LeaseWord::LeasesOf(slot.word.Load()), 1U);
}

TEST_F(IndexTest, GrowsToAMillionAndShrinksToNothing) {
  constexpr std::uint64_t kMany = 1'000'000;
  Open(kMany);
  const Bytes before = index_->bytes();
  std::vector<std::uint32_t> ids;
  ids.reserve(kMany);
  for (std::uint64_t i = 0; i < kMany; ++i) {
    ids.push_back(Insert(i));
    // Also on the way, not only at the end.
    if (i % 9973 == 0) {
      ASSERT_TRUE(Finds(i / 2)) << i;
    }
  }
  EXPECT_EQ(slots_->Take(), kNoSlot);
  EXPECT_GT(index_->bytes(), before);
  EXPECT_LE(index_->bytes(), kMany * 16);
  for (std::uint64_t i = 0; i < kMany; ++i) ASSERT_EQ(Lookup(i), ids[i]);
  for (std::uint64_t i = 0; i < kMany; i += 7) ASSERT_TRUE(Finds(i));
  for (std::uint64_t i = kMany; i < kMany + 10'000; ++i) ASSERT_FALSE(Finds(i));
  for (std::uint64_t i = 0; i < kMany; i += 2) ASSERT_TRUE(TryRemove(ids[i]));
  for (std::uint64_t i = 0; i < kMany; i += 997) ASSERT_EQ(Finds(i), i % 2 == 1) << i;
  for (std::uint64_t i = 1; i < kMany; i += 2) ASSERT_TRUE(TryRemove(ids[i]));
  EXPECT_EQ(slots_->in_use(), 0U);
  for (std::uint64_t i = 0; i < kMany; i += 997) ASSERT_FALSE(Finds(i));
}

// Eight bits of hash for 20,000 keys: about eighty share each hash, and nearly all of
// them are in overflow chains.
TEST_F(IndexTest, TellsKeysOfOneHashApart) {
  constexpr std::uint64_t kMany = 20'000;
  Open(kMany, /*hash_bits=*/8);
  std::vector<std::uint32_t> ids;
  for (std::uint64_t i = 0; i < kMany; ++i) ids.push_back(Insert(i));
  for (std::uint64_t i = 0; i < kMany; ++i) ASSERT_EQ(Lookup(i), ids[i]);
  for (std::uint64_t i = 0; i < kMany; i += 3) ASSERT_TRUE(TryRemove(ids[i]));
  for (std::uint64_t i = 0; i < kMany; ++i) ASSERT_EQ(Finds(i), i % 3 != 0) << i;
  for (std::uint64_t i = kMany; i < kMany + 1000; ++i) ASSERT_FALSE(Finds(i));
}

TEST_F(IndexTest, ReplacesInLinksAndInOverflow) {
  constexpr std::uint64_t kMany = 500;
  for (const int hash_bits : {64, 2}) {
    Open(2 * kMany, hash_bits);
    std::vector<std::uint32_t> ids;
    for (std::uint64_t i = 0; i < kMany; ++i) ids.push_back(Insert(i));
    for (std::uint64_t i = 0; i < kMany; i += 2) {
      const std::uint32_t fresh = Make(i);
      slots_->slot(fresh).word.Publish(1);
      index_->Replace(ids[i], fresh);
      ASSERT_TRUE(slots_->slot(ids[i]).word.Kill());
      slots_->Give(ids[i]);
      ids[i] = fresh;
    }
    for (std::uint64_t i = 0; i < kMany; ++i) ASSERT_EQ(Lookup(i), ids[i]) << hash_bits;
    for (const std::uint32_t id : ids) ASSERT_TRUE(TryRemove(id));
    for (std::uint64_t i = 0; i < kMany; ++i) ASSERT_FALSE(Finds(i)) << hash_bits;
  }
}

TEST_F(IndexTest, GuessesAreCheckedAndMayBeWrong) {
  Open(1000);
  for (std::uint64_t i = 0; i < 500; ++i) Insert(i);
  Slot* reap = nullptr;
  Slot* other = &slots_->slot(Lookup(7));
  for (std::uint64_t i = 0; i < 600; ++i) {
    const std::uint64_t hash = index_->HashOf(KeyOf(i));
    index_->PrefetchBucket(hash);
    for (Slot* guess : {index_->Guess(hash), other, static_cast<Slot*>(nullptr)}) {
      Slot* found = index_->Find(hash, KeyOf(i), Index::Use::kPeek, guess, &reap);
      ASSERT_EQ(found != nullptr, i < 500) << i;
      if (found == nullptr) continue;
      ASSERT_TRUE(found->KeyIs(KeyOf(i)));
      found->word.Release();
    }
  }
  EXPECT_EQ(reap, nullptr);
}

// --- keys chosen to collide ---

// However many keys have the same hash, walks are bounded, and all keys are found.
TEST_F(IndexTest, WalksAreBoundedHoweverManyKeysMeet) {
  constexpr std::uint64_t kMany = 60'000;
  for (const int hash_bits : {0, 3, 9}) {
    Open(kMany, hash_bits);
    std::vector<std::uint32_t> ids;
    for (std::uint64_t i = 0; i < kMany; ++i) ids.push_back(Insert(i));
    EXPECT_LE(index_->longest_walk(), 64U) << hash_bits;
    for (std::uint64_t i = 0; i < kMany; ++i) ASSERT_EQ(Lookup(i), ids[i]) << hash_bits;
    for (std::uint64_t i = 0; i < kMany; i += 5) ASSERT_TRUE(Finds(i)) << hash_bits;
    for (std::uint64_t i = kMany; i < kMany + 1000; ++i) ASSERT_FALSE(Finds(i)) << hash_bits;
    for (std::uint64_t i = 0; i < kMany; i += 2) ASSERT_TRUE(TryRemove(ids[i]));
    index_->Shrink();
    EXPECT_LE(index_->longest_walk(), 64U) << hash_bits;
    for (std::uint64_t i = 0; i < kMany; i += 3) ASSERT_EQ(Finds(i), i % 2 == 1) << hash_bits;
    for (std::uint64_t i = 1; i < kMany; i += 2) ASSERT_TRUE(TryRemove(ids[i]));
    EXPECT_EQ(index_->in_second(), 0U);
  }
}

// Random hashes collide so seldom that the second table stays empty.
TEST_F(IndexTest, KeysThatWereNotMadeToMeetStayInTheFirstTable) {
  Open(400'000, 64, {7, 11});
  for (std::uint64_t i = 0; i < 400'000; ++i) Insert(i);
  EXPECT_EQ(index_->in_second(), 0U);
}

// In these keys the public secret cancels the first half, so that XXH3 without a seed
// gives all of them one hash.
TEST_F(IndexTest, KeysThatMeetWithoutASeedDoNotMeetWithOne) {
  constexpr std::size_t kKeys = 60'000;
  const auto key = [](std::uint64_t number) {
    constexpr std::array<unsigned char, 8> kSecretBegins = {0xb8, 0xfe, 0x6c, 0x39,
                                                            0x23, 0xa4, 0x4b, 0xbe};
    std::string made(32, 'k');
    std::memcpy(made.data(), kSecretBegins.data(), kSecretBegins.size());
    std::memcpy(made.data() + 8, &number, sizeof number);
    return made;
  };
  Open(100);
  std::set<std::uint64_t> hashes;
  for (std::uint64_t i = 0; i < kKeys; ++i) hashes.insert(index_->HashOf(key(i)));
  EXPECT_EQ(hashes.size(), 1U);  // Otherwise this test shows nothing.
  for (const HashSeed seed : {HashSeed{1, 0}, HashSeed{0, 1}, HashSeed{~0ULL, 12345}}) {
    Open(100, 64, seed);
    hashes.clear();
    for (std::uint64_t i = 0; i < kKeys; ++i) hashes.insert(index_->HashOf(key(i)));
    EXPECT_EQ(hashes.size(), kKeys);
  }
}

TEST_F(IndexTest, TheSeedChangesHashesOfAllLengths) {
  std::string key(2000, 'x');
  for (std::size_t bytes = 1; bytes < key.size(); bytes += 1 + bytes / 4) {
    std::set<std::uint64_t> hashes;
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      Open(100, 64, {seed, 5});
      hashes.insert(index_->HashOf(std::string_view(key).substr(0, bytes)));
    }
    EXPECT_EQ(hashes.size(), 8U) << bytes;
  }
}

// --- groups and walking ---

TEST_F(IndexTest, CountsWhatIsLinkedByGroup) {
  for (const int hash_bits : {64, 3}) {
    Open(20'000, hash_bits);
    std::vector<std::uint32_t> ids;
    for (std::uint64_t i = 0; i < 10'000; ++i) {
      ids.push_back(Make(i));
      if (i % 4 == 0) slots_->slot(ids.back()).has_deadline = true;
      slots_->slot(ids.back()).word.Publish(1);
      index_->Link(ids.back());
    }
    EXPECT_EQ(index_->counts()[0].entries, 9'990U);
    EXPECT_EQ(index_->counts()[3].entries, 10U);
    EXPECT_EQ(index_->counts()[0].with_deadline, 2'500U);
    // The next generation of a key without a deadline has one, and the other way round.
    for (const std::uint64_t number : {0U, 1U, 2U}) {
      const std::uint32_t fresh = Make(number);
      slots_->slot(fresh).has_deadline = number != 0;
      slots_->slot(fresh).word.Publish(1);
      index_->Replace(ids[number], fresh);
      ASSERT_TRUE(slots_->slot(ids[number]).word.Kill());
      slots_->Give(ids[number]);
      ids[number] = fresh;
    }
    EXPECT_EQ(index_->counts()[0].with_deadline, 2'501U);
    EXPECT_EQ(index_->counts()[0].entries, 9'990U);
    for (const std::uint32_t id : ids) ASSERT_TRUE(TryRemove(id));
    for (const Index::Count& count : index_->counts()) {
      EXPECT_EQ(count.entries, 0U);
      EXPECT_EQ(count.with_deadline, 0U);
    }
  }
}

TEST_F(IndexTest, TheWayToAFewPassesByTheMany) {
  for (const int hash_bits : {64, 4}) {
    constexpr std::uint64_t kMany = 100'000;
    Open(kMany, hash_bits);
    for (std::uint64_t i = 0; i < kMany; ++i) Insert(i);
    std::set<std::uint64_t> found;
    std::size_t seen = 0;
    std::optional<std::uint64_t> at = index_->FirstWith(0, 3);
    while (at) {
      const std::uint64_t next = index_->Scan(*at, [&](std::uint32_t id) {
        ++seen;
        std::uint64_t number = 0;
        std::memcpy(&number, slots_->slot(id).inline_key, sizeof number);
        if (GroupOf(number) == 3) found.insert(number);
      });
      at = next == 0 ? std::nullopt : index_->FirstWith(next, 3);
    }
    EXPECT_EQ(found.size(), kMany / 1000) << hash_bits;
    EXPECT_LT(seen, kMany / 10) << hash_bits;
    EXPECT_FALSE(index_->FirstWith(0, 5));
  }
}

TEST_F(IndexTest, AnyOfAGroupIsEachOfThemAboutAsOften) {
  const auto number_of = [&](std::uint32_t id) {
    std::uint64_t number = 0;
    std::memcpy(&number, slots_->slot(id).inline_key, sizeof number);
    return number;
  };
  for (const int hash_bits : {64, 3}) {
    for (const std::uint64_t many : {10'000U, 60'000U}) {
      Open(many, hash_bits);
      for (std::uint64_t i = 0; i < many; ++i) Insert(i);
      std::map<std::uint64_t, int> drawn;
      const std::uint64_t of_group = many / 1000;
      const std::uint64_t draws = 200 * of_group;
      for (std::uint64_t i = 0; i < draws; ++i) {
        const std::uint32_t id = index_->AnyOf(3, i, [](std::uint32_t) { return true; });
        ASSERT_NE(id, kNoSlot);
        ++drawn[number_of(id)];
      }
      EXPECT_EQ(drawn.size(), of_group) << many;
      for (const auto& [number, times] : drawn) {
        EXPECT_EQ(GroupOf(number), 3) << number;
        EXPECT_GT(times, 100) << number << " of " << many;  // 200 are expected.
        EXPECT_LT(times, 320) << number << " of " << many;
      }
      // Of many keys, none is drawn much more often than the others.
      drawn.clear();
      for (std::uint64_t i = 0; i < many; ++i) {
        ++drawn[number_of(index_->AnyOf(0, i, [](std::uint32_t) { return true; }))];
      }
      EXPECT_GT(drawn.size(), many / 2);
      for (const auto& [number, times] : drawn) EXPECT_LT(times, 16) << number;
      // Only keys that are good, however few.
      const auto odd = [&](std::uint32_t id) { return number_of(id) == 7; };
      EXPECT_EQ(number_of(index_->AnyOf(3, 1, odd)), 7U);
      EXPECT_EQ(index_->AnyOf(3, 1, [](std::uint32_t) { return false; }), kNoSlot);
      EXPECT_EQ(index_->AnyOf(5, 1, odd), kNoSlot);
    }
  }
}

// A slot that stays linked is visited while the table grows and shrinks, and others are
// linked and unlinked.
TEST_F(IndexTest, ScansShowWhoStaysWhileTheTableChangesItsSize) {
  for (const int hash_bits : {64, 4}) {
    constexpr std::uint64_t kStable = 5'000;
    constexpr std::uint64_t kOthers = 60'000;
    Open(kStable + kOthers, hash_bits);
    for (std::uint64_t i = 0; i < kStable; ++i) Insert(i);
    std::vector<std::uint32_t> others;
    std::set<std::uint32_t> shown;
    std::uint64_t cursor = 0;
    std::uint64_t calls = 0;
    do {
      cursor = index_->Scan(cursor, [&](std::uint32_t id) { shown.insert(id); });
      if (++calls % 50 != 0) continue;
      if (calls / 50 % 2 == 1) {
        for (std::uint64_t i = 0; others.size() < kOthers; ++i) {
          others.push_back(Insert(kStable + calls * kOthers + i));
        }
      } else {
        for (const std::uint32_t id : others) ASSERT_TRUE(TryRemove(id));
        others.clear();
        index_->Shrink();
      }
      ASSERT_LT(calls, 1'000'000U);
    } while (cursor != 0);
    for (std::uint64_t i = 0; i < kStable; ++i) {
      ASSERT_TRUE(shown.contains(Lookup(i))) << i << " of " << hash_bits << " bits";
    }
  }
}

TEST_F(IndexTest, ShrinksToWhatIsLeft) {
  constexpr std::uint64_t kMany = 300'000;
  Open(kMany);
  const Bytes small = index_->bytes();
  std::vector<std::uint32_t> ids;
  for (int round = 0; round < 2; ++round) {
    ids.clear();
    for (std::uint64_t i = 0; i < kMany; ++i) ids.push_back(Insert(i));
    const Bytes large = index_->bytes();
    for (std::uint64_t i = 100; i < kMany; ++i) ASSERT_TRUE(TryRemove(ids[i]));
    EXPECT_EQ(index_->bytes(), large);
    index_->Shrink();
    EXPECT_EQ(index_->bytes(), small);
    for (std::uint64_t i = 0; i < 1000; ++i) ASSERT_EQ(Finds(i), i < 100);
    for (std::uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(TryRemove(ids[i]));
  }
}

// --- readers concurrent with the strand ---

class IndexChurnTest : public IndexTest, public ::testing::WithParamInterface<int> {};

// Keys that stay are always found, whatever happens to the others in their buckets:
// growth, removal, slots that change buckets, replacement.
TEST_P(IndexChurnTest, KeysThatStayAreNeverMissed) {
  constexpr std::uint64_t kStable = 512;
  constexpr std::uint64_t kOthers = 4096;
  constexpr int kRounds = 20'000;
  Open(2 * (kStable + kOthers), /*hash_bits=*/GetParam());
  std::vector<std::uint32_t> stable;
  std::vector<std::uint32_t> others(kOthers, kNoSlot);
  for (std::uint64_t i = 0; i < kStable; ++i) stable.push_back(Insert(i));

  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> reads{0};
  std::atomic<std::uint64_t> missed{0};
  std::atomic<std::uint64_t> wrong{0};
  std::vector<std::thread> readers;
  for (std::uint64_t reader = 0; reader < 2; ++reader) {
    readers.emplace_back([&, reader] {
      std::uint64_t at = reader * 97;
      while (!stop.load(std::memory_order_relaxed)) {
        const std::uint64_t key = at++ % kStable;
        if (!Finds(key)) missed.fetch_add(1);
        // One of the keys that are linked and unlinked: found or not, but never
        // another.
        const std::uint64_t other = kStable + (at * 31) % kOthers;
        Slot* reap = nullptr;
        Slot* slot =
            index_->Find(index_->HashOf(KeyOf(other)), KeyOf(other), Index::Use::kCount, &reap);
        if (slot != nullptr) {
          if (!slot->KeyIs(KeyOf(other))) wrong.fetch_add(1);
          slot->word.Release();
        }
        reads.fetch_add(1, std::memory_order_relaxed);
      }
    });
  }

  std::uint64_t draw = 1;
  std::vector<std::uint32_t> replaced;  // Still leased when they were to be freed.
  for (int round = 0; round < kRounds; ++round) {
    draw = draw * 6364136223846793005ULL + 1442695040888963407ULL;
    std::uint32_t& id = others[(draw >> 33) % kOthers];
    if (id == kNoSlot) {
      id = Insert(kStable + (draw >> 33) % kOthers);
    } else if (TryRemove(id)) {
      id = kNoSlot;
    }
    if (round % 8 == 0) {  // The same key, in a new slot.
      const std::uint64_t key = (draw >> 40) % kStable;
      const std::uint32_t fresh = Make(key);
      slots_->slot(fresh).word.Publish(1);
      index_->Replace(stable[key], fresh);
      replaced.push_back(std::exchange(stable[key], fresh));
    }
    // Visible and unlinked: a reader that came early may hold a lease a moment longer.
    std::erase_if(replaced, [&](std::uint32_t old) {
      if (!slots_->slot(old).word.TryEvict()) return false;
      slots_->Give(old);
      return true;
    });
    if (round % 256 == 0) std::this_thread::yield();
  }
  while (reads.load() < 1000) std::this_thread::yield();
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(missed.load(), 0U) << "of " << reads.load() << " reads";
  EXPECT_EQ(wrong.load(), 0U);
  for (std::uint64_t i = 0; i < kStable; ++i) EXPECT_EQ(Lookup(i), stable[i]);
}

INSTANTIATE_TEST_SUITE_P(HashBits, IndexChurnTest, ::testing::Values(64, 10, 4));

// The table splits a bucket every few entries; readers of existing keys must not
// notice.
TEST_F(IndexTest, GrowthIsInvisible) {
  constexpr std::uint64_t kStable = 200;
  constexpr std::uint64_t kMany = 150'000;
  Open(kStable + kMany);
  for (std::uint64_t i = 0; i < kStable; ++i) Insert(i);
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> missed{0};
  std::thread reader([&] {
    for (std::uint64_t at = 0; !stop.load(std::memory_order_relaxed); ++at) {
      if (!Finds(at % kStable)) missed.fetch_add(1);
    }
  });
  for (std::uint64_t i = 0; i < kMany; ++i) Insert(kStable + i);
  stop = true;
  reader.join();
  EXPECT_EQ(missed.load(), 0U);
}

// The same when it shrinks again, and slabs of slots give their memory back.
TEST_F(IndexTest, ShrinkingIsInvisible) {
  constexpr std::uint64_t kStable = 200;
  constexpr std::uint64_t kMany = 100'000;
  Open(kStable + kMany);
  for (std::uint64_t i = 0; i < kStable; ++i) Insert(i);
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> missed{0};
  std::atomic<std::uint64_t> wrong{0};
  std::vector<std::thread> readers;
  for (std::uint64_t reader = 0; reader < 2; ++reader) {
    readers.emplace_back([&, reader] {
      for (std::uint64_t at = reader; !stop.load(std::memory_order_relaxed); ++at) {
        if (!Finds(at % kStable)) missed.fetch_add(1);
        // A key that is linked and unlinked, by an access that is counted and undone.
        const std::uint64_t other = kStable + (at * 7919) % kMany;
        Slot* reap = nullptr;
        Slot* const slot =
            index_->Find(index_->HashOf(KeyOf(other)), KeyOf(other), Index::Use::kCount, &reap);
        if (slot == nullptr) continue;
        if (!slot->KeyIs(KeyOf(other))) wrong.fetch_add(1);
        slot->word.Release();
      }
    });
  }
  std::vector<std::uint32_t> others;
  constexpr int kRounds = kSanitized ? 1 : 4;
  for (int round = 0; round < kRounds; ++round) {
    for (std::uint64_t i = 0; i < kMany; ++i) others.push_back(Insert(kStable + i));
    while (!others.empty()) {  // Some are leased just now.
      std::erase_if(others, [&](std::uint32_t id) { return TryRemove(id); });
    }
    index_->Shrink();
    slots_->Trim();
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(missed.load(), 0U);
  EXPECT_EQ(wrong.load(), 0U);
  // A reader that came too late has taken back what it added, from the right word.
  for (std::uint32_t id = 0; id < kStable + kMany; ++id) {
    ASSERT_EQ(LeaseWord::LeasesOf(slots_->slot(id).word.Load()), 0U) << id;
  }
}

}  // namespace
}  // namespace spillway
