// SPDX-License-Identifier: Apache-2.0
// Power cuts, torn journals and damaged bytes: every blob is intact or not found.
#include <random>

#include <gtest/gtest.h>

#include "tier/disk/testing/disk_world.h"

namespace spillway {
namespace {

using testing::Check;
using testing::FactsOf;

class DiskCrashTest : public testing::DiskStoreTest {
 protected:
  struct Model {
    BlobFacts facts;
    BlobId id = kNoBlob;
    bool freed = false;
    bool is_safe = false;   // A sync came after the write,
    bool was_safe = false;  // and none after the delete.
  };

  void PutSome(std::mt19937_64* random) {
    const Bytes sizes[] = {0, 1, 5000, 4096, 70'000, 300'000};
    const std::string key = fmt::format("key {}", (*random)() % 12);
    const BlobFacts facts = FactsOf(key, sizes[(*random)() % 6], ++generation_);
    for (Model& model : models_) {
      if (model.facts.key == key && !model.freed) Forget(&model);
    }
    const auto id = testing::Put(store_.get(), facts);
    if (id) models_.push_back({facts, *id});
  }
  // Several blobs at once. All keys differ: of two blobs of one key that are
  // written together, either may be the later one.
  void PutBatch(std::mt19937_64* random) {
    const Bytes sizes[] = {0, 1, 100, 5000, 70'000};
    std::vector<BlobFacts> facts;
    std::vector<std::vector<std::byte>> values;
    const std::uint64_t count = 1 + (*random)() % 12;
    for (std::uint64_t i = 0; i < count; ++i) {
      facts.push_back(FactsOf(fmt::format("key {}", i), sizes[(*random)() % 5], ++generation_));
      values.push_back(testing::ValueOf(facts.back()));
      for (Model& model : models_) {
        if (model.facts.key == facts.back().key && !model.freed) Forget(&model);
      }
    }
    std::vector<Seal> seals(count);
    std::vector<BlobWrite> writes;
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto id = store_->Allocate(facts[i]);
      if (!id) continue;
      writes.push_back({.id = *id,
                        .facts = &facts[i],
                        .seal = &seals[i],
                        .source = Source(values[i].data(), values[i].size())});
    }
    store_->WriteBatch(writes);
    for (const BlobWrite& one : writes) {
      if (one.status) {
        models_.push_back({*one.facts, one.id});
      } else {
        store_->Free(one.id);
      }
    }
  }
  void Forget(Model* model) {
    store_->Free(model->id);
    model->freed = true;
  }
  void SyncAll() {
    ASSERT_TRUE(store_->Sync());
    for (Model& model : models_) {
      model.is_safe = !model.freed;
      model.was_safe = model.is_safe;
    }
  }
  void Step(std::mt19937_64* random) {
    switch ((*random)() % 10) {
      case 8:
      case 9:
        return PutBatch(random);
      case 0:
        return SyncAll();
      case 1:
        store_->RunBackground();
        return SyncAll();
      case 2:
      case 3:
        for (Model& model : models_) {
          if (!model.freed && (*random)() % 3 == 0) return Forget(&model);
        }
        return;
      default:
        return PutSome(random);
    }
  }
  // Durable blobs are found; every blob found is correct.
  void Judge() {
    for (const Model& model : models_) {
      const auto found = found_.find(model.facts.key);
      const bool is_there =
          found != found_.end() && found->second.facts.generation == model.facts.generation;
      if (model.is_safe && !model.freed) {
        ASSERT_TRUE(is_there) << model.facts.key << " was synced and is lost; found "
                              << (found == found_.end() ? 0 : found->second.facts.generation)
                              << " instead of " << model.facts.generation << ", rejected "
                              << store_->stats().recovery_rejected;
        ExpectGood(found->second.id, model.facts);
      } else if (is_there) {
        const Status status = Check(store_.get(), found->second.id, model.facts);
        if (!status) {
          ASSERT_EQ(status.error().code, Code::kCorrupt) << status.error().message;
          ++lost_;
        }
      }
    }
    for (const auto& [key, found] : found_) {
      const bool known = std::any_of(models_.begin(), models_.end(), [&](const Model& model) {
        return model.facts.key == found.facts.key &&
               model.facts.generation == found.facts.generation;
      });
      EXPECT_TRUE(known) << key << " was never there";
    }
  }
  // The models become the blobs that were found and can be read.
  void Adopt() {
    models_.clear();
    for (const auto& [key, found] : found_) {
      if (Check(store_.get(), found.id, found.facts)) {
        models_.push_back({found.facts, found.id, false, true, true});
      } else {
        store_->Quarantine(found.id);
      }
    }
  }

  std::vector<Model> models_;
  std::uint64_t generation_ = 0;
  int lost_ = 0;
};

TEST_F(DiskCrashTest, AfterAPowerCutEveryBlobIsIntactOrAbsent) {
  options_.quota = 2 * kMiB;
  options_.journal_slack = 2 * kKiB;  // Small, so that checkpoints happen, too.
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    options_.directory = fmt::format("/disk/{}", seed);
    std::mt19937_64 random(seed);
    Reopen();
    models_.clear();
    for (int crash = 0; crash < 3; ++crash) {
      const std::uint64_t steps = random() % 40;
      for (std::uint64_t step = 0; step < steps; ++step) Step(&random);
      memory_->Crash(random());
      store_.reset();  // Its files are closed: it can do nothing more.
      Reopen();
      ASSERT_EQ(store_->health(), BlobStore::Health::kGood) << store_->why();
      ASSERT_NO_FATAL_FAILURE(Judge());
      Adopt();
      store_->RunBackground();
      // A second recovery finds the same.
      const auto first = std::move(found_);
      const std::size_t living = models_.size();
      Reopen();
      ASSERT_EQ(found_.size(), living);
      for (Model& model : models_) model.id = found_.at(model.facts.key).id;
      ASSERT_NO_FATAL_FAILURE(Judge());
    }
    store_.reset();
    if (HasFailure()) break;
  }
  EXPECT_GT(lost_, 0) << "no crash took anything: the test tests nothing";
}

TEST_F(DiskCrashTest, AKillLosesNothingThatWasWritten) {
  // Without a power cut all written blobs survive: the store is just left behind.
  Reopen();
  const BlobFacts facts = FactsOf("a", 100'000);
  MustPut(facts);
  memory_->SyncDirectory("/disk");
  PutBack(Keep());
  Reopen();
  ASSERT_EQ(found_.size(), 1U);
  ExpectGood(found_.at("a").id, facts);
}

TEST_F(DiskCrashTest, AKillNeverFindsABlobWhosePlaceIsBeingWrittenOver) {
  Reopen();
  const BlobFacts old = FactsOf("old", 9000);
  store_->Free(MustPut(old));
  const auto blobs = memory_->Content("/disk/store/blobs");
  // All states that a kill can leave while the next blob is written there.
  std::vector<Folder> left;
  const auto remember = [&] { left.push_back(Keep()); };
  faulty_->SetScript([&](testing::FileCall call, std::uint64_t, int) {
    if (call == testing::FileCall::kWrite) remember();
    return 0;
  });
  MustPut(FactsOf("new", 9000));
  faulty_->Heal();
  remember();
  int written_over = 0;
  for (const Folder& folder : left) {
    PutBack(folder);
    Reopen();
    if (folder.at("/disk/store/blobs") == blobs) continue;
    ++written_over;
    EXPECT_FALSE(found_.contains("old"));
  }
  EXPECT_GE(written_over, 2);
}

TEST_F(DiskCrashTest, AJournalCutAtAnyByteTellsOfWhatIsBeforeTheCut) {
  options_.quota = 128 * kKiB;
  Reopen();
  std::vector<BlobFacts> all;
  std::vector<Bytes> ends;  // Length of the journal when it had that many blobs.
  for (int i = 0; i < 5; ++i) {
    all.push_back(FactsOf(fmt::format("key {}", i), 3000U + static_cast<Bytes>(i)));
    MustPut(all.back());
    ends.push_back(memory_->Content("/disk/store/journal-1").size());
    if (i == 2) {
      ASSERT_TRUE(store_->Sync());  // Padding follows.
    }
  }
  store_.reset();
  const auto journal = memory_->Content("/disk/store/journal-1");
  const auto blobs = memory_->Content("/disk/store/blobs");
  const auto step = [&](std::size_t cut) {  // All padding is alike.
    return cut > kPageBytes && cut < 2 * kPageBytes - 100 ? 97U : 1U;
  };
  for (std::size_t cut = 0; cut <= journal.size(); cut += step(cut)) {
    SCOPED_TRACE(fmt::format("cut at {}", cut));
    for (const std::string& name : memory_->Names()) {
      if (name.starts_with("/disk/store/journal")) memory_->Remove(name);
      if (name.starts_with("/disk/store/mirror")) memory_->Remove(name);
    }
    bool direct = false;
    memory_->Close(memory_->Open("/disk/store/journal-1", {.create = true}, &direct));
    memory_->SetContent("/disk/store/journal-1",
                        {journal.begin(), journal.begin() + static_cast<std::ptrdiff_t>(cut)});
    if (cut % 512 == 0) memory_->SetContent("/disk/store/blobs", blobs);
    Reopen();
    ASSERT_EQ(store_->health(), BlobStore::Health::kGood);
    std::size_t whole = 0;
    while (whole < ends.size() && ends[whole] <= cut) ++whole;
    ASSERT_EQ(found_.size(), whole);
    for (const auto& [key, found] : found_) {
      if (cut % 64 == 0) ExpectGood(found.id, found.facts);
    }
    if (HasFailure()) break;
    store_.reset();
    memory_->SetContent("/disk/store/blobs", blobs);
  }
}

TEST_F(DiskCrashTest, TenThousandDamagesAreAllSeen) {
  Reopen();
  const Bytes sizes[] = {1, 5000, 300'000, kMiB + 1};
  std::vector<std::pair<BlobId, BlobFacts>> blobs;
  Bytes at = 0;
  std::vector<Extent> extents;
  for (const Bytes size : sizes) {
    const BlobFacts facts = FactsOf(fmt::format("key {}", size), size);
    blobs.emplace_back(MustPut(facts), facts);
    extents.push_back({at, kPageBytes + PagesUp(size)});
    at = extents.back().end();
  }
  std::mt19937_64 random(7);
  int seen = 0;
  constexpr int kTrials = 10'000;
  for (int trial = 0; trial < kTrials; ++trial) {
    // The largest blob is slow to read; one trial in fifty uses it.
    const std::size_t blob = trial % 50 == 0 ? 3 : static_cast<std::size_t>(trial % 3);
    const Extent& extent = extents[blob];
    // Half of the trials damage the header; one bit, or a burst of up to 64 bytes.
    const Bytes first = extent.at + random() % (trial % 2 == 0 ? kPageBytes : extent.bytes);
    const Bytes bytes =
        trial % 4 < 2 ? 1 : 1 + random() % std::min<Bytes>(64, extent.end() - first);
    const int bit = static_cast<int>(random() % 8);
    for (Bytes i = 0; i < bytes; ++i) memory_->FlipBit("/disk/store/blobs", first + i, bit);
    const Status status =
        store_->Read(blobs[blob].first, blobs[blob].second, nullptr, nullptr, nullptr);
    if (!status && status.error().code == Code::kCorrupt) ++seen;
    for (Bytes i = 0; i < bytes; ++i) memory_->FlipBit("/disk/store/blobs", first + i, bit);
  }
  EXPECT_EQ(seen, kTrials);
  EXPECT_EQ(store_->stats().corrupt, static_cast<std::uint64_t>(kTrials));
  for (const auto& [id, facts] : blobs) ExpectGood(id, facts);
}

}  // namespace
}  // namespace spillway
