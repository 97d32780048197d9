// A store and what was put into it: blobs whose content follows from their key
// and generation, so that every byte read can be checked.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "spillway/testing.h"
#include "tier/disk/disk_store.h"
#include "tier/disk/testing/faulty_files.h"
#include "tier/disk/testing/memory_files.h"

namespace spillway::testing {

// Never the same for two blobs, nor for two pages of one.
inline void FillValue(const BlobFacts& facts, std::byte* data) {
  std::uint64_t state = Hash128Of(facts.key.data(), facts.key.size()).low ^ facts.generation;
  for (Bytes at = 0; at < facts.size; at += sizeof state) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    std::memcpy(data + at, &state, std::min(sizeof state, facts.size - at));
  }
}

inline std::vector<std::byte> ValueOf(const BlobFacts& facts) {
  std::vector<std::byte> value(facts.size);
  FillValue(facts, value.data());
  return value;
}

inline BlobFacts FactsOf(const std::string& key, Bytes size, std::uint64_t generation = 1) {
  BlobFacts facts;
  facts.key = key;
  facts.size = size;
  facts.generation = generation;
  facts.tokens = static_cast<Tokens>(size / 3);
  return facts;
}

using FoundMap = std::map<std::string, BlobStore::Found>;  // By key.

// Waits for a store with a background thread; drives one without.
inline FoundMap LoadAll(DiskStore* store, bool background = false) {
  FoundMap all;
  std::mutex mutex;
  std::condition_variable wake;
  bool is_done = false;
  store->StartLoading([&](std::vector<BlobStore::Found> batch, bool done) {
    const std::lock_guard lock(mutex);
    for (BlobStore::Found& found : batch) {
      std::string key = found.facts.key;
      EXPECT_TRUE(all.emplace(key, std::move(found)).second) << "found twice: " << key;
    }
    is_done = done;
    wake.notify_all();
  });
  if (!background) store->RunBackground();
  std::unique_lock lock(mutex);
  if (background) wake.wait(lock, [&] { return is_done; });
  EXPECT_TRUE(is_done);
  return all;
}

inline Result<BlobId> Put(BlobStore* store, const BlobFacts& facts) {
  const auto id = store->Allocate(facts);
  if (!id) return id;
  const std::vector<std::byte> value = ValueOf(facts);
  const Source source(value.data(), value.size());
  const Status status = store->Write(*id, facts, Seal::Of(source), source, nullptr);
  if (status) return id;
  store->Free(*id);
  return status.error();
}

// OK only if every byte is right; a wrong one fails the test.
inline Status Check(BlobStore* store, BlobId id, const BlobFacts& facts) {
  std::vector<std::byte> value(facts.size, std::byte{0xdb});
  Status status = store->Read(id, facts, value.data(), nullptr, nullptr);
  if (status) {
    EXPECT_TRUE(value == ValueOf(facts)) << "wrong bytes of " << facts.key;
  }
  return status;
}

// A store on files in memory, without threads, whose every call may fail.
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
    faulty_->Heal();  // What the script looked at has gone with the test's body.
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
  // The error with which opening is refused.
  std::string Refusal() {
    store_.reset();
    auto opened = DiskStore::Open(options_);
    return opened ? "" : opened.error().message;
  }
  BlobId MustPut(const BlobFacts& facts) {
    const auto id = Put(store_.get(), facts);
    EXPECT_TRUE(id) << id.error().message;
    return id ? *id : kNoBlob;
  }
  void ExpectGood(BlobId id, const BlobFacts& facts) {
    const Status status = Check(store_.get(), id, facts);
    EXPECT_TRUE(status) << status.error().message;
  }
  // The code with which a blob is not served.
  Code Failure(BlobId id, const BlobFacts& facts) {
    const Status status = Check(store_.get(), id, facts);
    EXPECT_FALSE(status) << facts.key << " was served";
    return status ? Code::kInternal : status.error().code;
  }

  const std::shared_ptr<MemoryFiles> memory_ = std::make_shared<MemoryFiles>();
  const std::shared_ptr<FaultyFiles> faulty_ = std::make_shared<FaultyFiles>(memory_);
  const std::shared_ptr<ManualClock> clock_ = std::make_shared<ManualClock>();
  DiskOptions options_;
  std::unique_ptr<DiskStore> store_;
  FoundMap found_;
};

}  // namespace spillway::testing
