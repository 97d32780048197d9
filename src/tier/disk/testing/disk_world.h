// SPDX-License-Identifier: Apache-2.0
// A store and the blobs put into it. A blob's content follows from its key and
// generation, so that every byte read can be checked.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/mutex.h"
#include "spillway/testing.h"
#include "tier/disk/disk_store.h"
#include "tier/disk/testing/faulty_files.h"
#include "tier/disk/testing/memory_files.h"

namespace spillway::testing {

// Differs between any two blobs, and between any two pages of one.
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

// Waits for a store with a background thread; runs the work of one without.
inline FoundMap LoadAll(DiskStore* store, bool background = false) {
  FoundMap all;
  Mutex mutex;
  CondVar wake;
  bool is_done = false;
  store->StartLoading([&](std::vector<BlobStore::Found> batch, bool done) {
    const MutexLock lock(mutex);
    for (BlobStore::Found& found : batch) {
      std::string key = found.facts.key;
      EXPECT_TRUE(all.emplace(key, std::move(found)).second) << "found twice: " << key;
    }
    is_done = done;
    wake.notify_all();
  });
  if (!background) store->RunBackground();
  const MutexLock lock(mutex);
  while (background && !is_done) wake.wait(mutex);
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

// OK only if every byte is right; a wrong byte fails the test.
inline Status Check(BlobStore* store, BlobId id, const BlobFacts& facts) {
  std::vector<std::byte> value(facts.size, std::byte{0xdb});
  Status status = store->Read(id, facts, value.data(), nullptr, nullptr);
  if (status) {
    EXPECT_TRUE(value == ValueOf(facts)) << "wrong bytes of " << facts.key;
  }
  return status;
}

// A store on files in memory, without threads. Any of its file calls can be
// made to fail.
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
    faulty_->Heal();  // The script may refer to locals of the test's body.
    store_.reset();
    EXPECT_EQ(faulty_->open_files(), 0);
  }

  // Opens the store again; the blobs it found are in found_.
  void Reopen() {
    store_.reset();
    auto opened = DiskStore::Open(options_);
    ASSERT_TRUE(opened) << opened.error().message;
    store_ = std::move(*opened);
    found_ = LoadAll(store_.get());
  }
  // The error message of a refused Open.
  std::string Refusal() {
    store_.reset();
    auto opened = DiskStore::Open(options_);
    return opened ? "" : opened.error().message;
  }
  // Keep returns a copy of the store's files, as a kill at this moment would
  // leave them. PutBack restores that copy.
  using Folder = std::map<std::string, std::vector<std::byte>>;
  Folder Keep() const {
    Folder folder;
    for (const std::string& name : memory_->Names()) {
      if (name.starts_with(options_.directory + "/")) folder[name] = memory_->Content(name);
    }
    return folder;
  }
  void PutBack(const Folder& folder) {
    store_.reset();
    for (const std::string& name : memory_->Names()) {
      if (name.starts_with(options_.directory + "/") && !folder.contains(name)) {
        memory_->Remove(name);
      }
    }
    for (const auto& [name, content] : folder) {
      memory_->Close(memory_->Open(name, {.create = true}, nullptr));
      memory_->SetContent(name, content);
    }
  }
  // The names of the newest journal and its mirror.
  std::string JournalName(std::string_view prefix = "journal-") const {
    const std::string begin = fmt::format("{}/{}", options_.directory, prefix);
    std::uint64_t newest = 0;
    for (const std::string& name : memory_->Names()) {
      if (!name.starts_with(begin)) continue;
      newest = std::max<std::uint64_t>(newest, std::stoull(name.substr(begin.size())));
    }
    return begin + std::to_string(newest);
  }
  std::string MirrorName() const { return JournalName("mirror-"); }

  BlobId MustPut(const BlobFacts& facts) {
    const auto id = Put(store_.get(), facts);
    EXPECT_TRUE(id) << id.error().message;
    return id ? *id : kNoBlob;
  }
  void ExpectGood(BlobId id, const BlobFacts& facts) {
    const Status status = Check(store_.get(), id, facts);
    EXPECT_TRUE(status) << status.error().message;
  }
  // The error code of a failed read.
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
