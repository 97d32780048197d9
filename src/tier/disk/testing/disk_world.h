// A store and what was put into it: blobs whose content follows from their key
// and generation, so that every byte read can be checked.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tier/disk/aligned_buffer.h"
#include "tier/disk/disk_store.h"

namespace spillway::testing {

// Never the same for two blobs, nor for two pages of one.
inline void FillValue(const BlobFacts& facts, std::byte* data) {
  std::uint64_t state = Hash128Of(facts.key.data(), facts.key.size()).low ^ facts.generation;
  for (Bytes at = 0; at < facts.size; ++at) {
    if (at % 8 == 0) state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    data[at] = static_cast<std::byte>(state >> (8 + 7 * (at % 8)));
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

}  // namespace spillway::testing
