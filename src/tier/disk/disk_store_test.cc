#include "tier/disk/disk_store.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "spillway/testing.h"
#include "tier/disk/testing/disk_world.h"
#include "tier/disk/testing/faulty_files.h"
#include "tier/disk/testing/memory_files.h"

namespace spillway {
namespace {

using testing::Check;
using testing::FactsOf;
using testing::FaultyFiles;
using testing::FileCall;
using testing::FoundMap;
using testing::LoadAll;
using testing::ManualClock;
using testing::MemoryFiles;
using testing::Put;
using testing::ValueOf;
using Health = BlobStore::Health;

class DiskStoreTest : public ::testing::Test {
 protected:
  DiskStoreTest() {
    options_.directory = "/disk/store";
    options_.quota = 32 * kMiB;
    options_.files = faulty_;
    options_.clock = clock_;
    options_.background = false;
  }
  ~DiskStoreTest() override {
    store_.reset();
    EXPECT_EQ(faulty_->open_files(), 0);
  }

  // The store, opened anew; what it found is in found_.
  void Reopen() {
    store_.reset();
    auto opened = DiskStore::Open(options_);
    ASSERT_TRUE(opened) << opened.error().message;
    store_ = std::move(*opened);
    found_ = LoadAll(store_.get());
  }

  const std::shared_ptr<MemoryFiles> memory_ = std::make_shared<MemoryFiles>();
  const std::shared_ptr<FaultyFiles> faulty_ = std::make_shared<FaultyFiles>(memory_);
  const std::shared_ptr<ManualClock> clock_ = std::make_shared<ManualClock>();
  DiskOptions options_;
  std::unique_ptr<DiskStore> store_;
  FoundMap found_;
};

constexpr Bytes kSizes[] = {0, 1, 4095, 4096, 4097, kMiB, kMiB + 1, 5 * kMiB};

TEST_F(DiskStoreTest, EverySizeComesBackNowAndAfterReopening) {
  Reopen();
  std::map<std::string, std::pair<BlobId, BlobFacts>> blobs;
  for (const Bytes size : kSizes) {
    const BlobFacts facts = FactsOf(fmt::format("key {}", size), size);
    const auto id = Put(store_.get(), facts);
    ASSERT_TRUE(id) << id.error().message;
    blobs[facts.key] = {*id, facts};
  }
  for (const auto& [key, blob] : blobs) EXPECT_TRUE(Check(store_.get(), blob.first, blob.second));
  Reopen();
  ASSERT_EQ(found_.size(), std::size(kSizes));
  for (const auto& [key, found] : found_) {
    EXPECT_TRUE(Check(store_.get(), found.id, blobs.at(key).second));
  }
  EXPECT_EQ(store_->stats().recovered, std::size(kSizes));
  EXPECT_EQ(store_->stats().recovery_rejected, 0U);
  Reopen();
  EXPECT_EQ(found_.size(), std::size(kSizes));
}

}  // namespace
}  // namespace spillway
