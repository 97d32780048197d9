#include "cache/index.h"

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cache/slot.h"

namespace spillway {
namespace {

// An index with its slots, and the little of a store that linking needs. Keys
// are numbers of eight bytes.
class IndexTest : public ::testing::Test {
 protected:
  void Open(std::uint64_t entries_max, int hash_bits = 64) {
    auto slots = SlotTable::Open(entries_max);
    ASSERT_TRUE(slots);
    slots_ = std::move(*slots);
    auto index = Index::Open(slots_.get(), hash_bits);
    ASSERT_TRUE(index);
    index_ = std::move(*index);
  }

  static std::string_view KeyOf(const std::uint64_t& number) {
    return {reinterpret_cast<const char*>(&number), sizeof number};
  }

  // A slot with that key, written but not to be found.
  std::uint32_t Make(std::uint64_t number) {
    const std::uint32_t id = slots_->Take();
    Slot& slot = slots_->slot(id);
    slot.key_bytes_less_one = sizeof number - 1;
    std::memcpy(slot.inline_key, &number, sizeof number);
    slot.hash.store(index_->HashOf(KeyOf(number)), std::memory_order_relaxed);
    return id;
  }

  std::uint32_t Insert(std::uint64_t number) {
    const std::uint32_t id = Make(number);
    slots_->slot(id).word.Publish(1);
    index_->Link(id);
    return id;
  }

  // As the engine removes what nobody reads. False: somebody does.
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

TEST_F(IndexTest, LinksANewKeyBesideTheStrandOnce) {
  Open(100);
  const std::uint32_t one = Make(1);
  ASSERT_TRUE(index_->LinkNew(one));
  index_->CountNew();
  EXPECT_TRUE(Finds(1));
  EXPECT_EQ(Lookup(1), one);
  const std::uint32_t again = Make(1);
  EXPECT_FALSE(index_->LinkNew(again));
  EXPECT_EQ(LeaseWord::StateOf(slots_->slot(again).word.Load()), SlotState::kPrivate);
  EXPECT_EQ(Lookup(1), one);
  ASSERT_TRUE(TryRemove(one));
  EXPECT_FALSE(Finds(1));
  EXPECT_TRUE(index_->LinkNew(again));
  EXPECT_TRUE(Finds(1));
}

// Several threads link the same keys, one of each, while another grows the table and
// removes others: each key is linked once, and is found from then on.
TEST_F(IndexTest, OfThreadsThatLinkAKeyOneDoes) {
  constexpr std::uint64_t kKeys = 20'000;
  constexpr std::uint64_t kOthers = 100'000;
  constexpr unsigned kThreads = 3;
  Open(kKeys * kThreads + kOthers, 20);  // Some hashes are alike.
  std::vector<std::vector<std::uint32_t>> made(kThreads);
  for (auto& of_thread : made) {
    for (std::uint64_t key = 0; key < kKeys; ++key) of_thread.push_back(Make(key));
  }
  std::atomic<std::uint64_t> linked{0};
  std::vector<std::thread> threads;
  for (unsigned thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::uint64_t key = 0; key < kKeys; ++key) {
        if (index_->LinkNew(made[thread][key])) linked.fetch_add(1);
        ASSERT_TRUE(Finds(key));
      }
    });
  }
  for (std::uint64_t other = 0; other < kOthers; ++other) {
    const std::uint32_t id = Insert(kKeys + other);
    if (other % 3 == 0) {
      ASSERT_TRUE(TryRemove(id));
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(linked.load(), kKeys);
  for (std::uint64_t key = 0; key < kKeys; ++key) ASSERT_TRUE(Finds(key));
  for (std::uint64_t other = 0; other < kOthers; ++other) {
    ASSERT_EQ(Finds(kKeys + other), other % 3 != 0);
  }
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
    // All along the way, not only at the end.
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

// Eight bits of hash for 20,000 keys: each hash is shared by some eighty, and
// nearly all of them stand in overflow chains.
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

// --- readers beside the strand ---

class IndexChurnTest : public IndexTest, public ::testing::WithParamInterface<int> {};

// Keys that are always there are always found, whatever happens to the others
// in their buckets: growth, removal, slots that change buckets, replacement.
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
        // One of those that come and go: found or not, but never another.
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
  std::vector<std::uint32_t> replaced;  // Still read when their turn came.
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
    // Visible and unlinked: whoever came early may hold it a moment longer.
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

// The table splits a bucket with every few entries; readers of what is there
// already must not notice.
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

}  // namespace
}  // namespace spillway
