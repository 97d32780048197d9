// SPDX-License-Identifier: Apache-2.0
// The measured engines, each with the same two calls:
//   Get(request)  finds the key, leases the value, releases it; returns the value, or 0 on a miss
//   Put(request)  inserts key and value
// There are no virtual calls around them: the loops are templates.
#pragma once

#include <array>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "bench/support/workload.h"
#include "spillway/cache.h"

#if defined(SPILLWAY_HAVE_ROCKSDB)
#include <rocksdb/cache.h>
#endif

namespace spillway::bench {

inline std::unique_ptr<Cache> OpenOrStop(const Options& options) {
  auto cache = Cache::Open(options);
  if (!cache) {
    std::fprintf(stderr, "cannot open a cache: %s\n", cache.error().message.c_str());
    std::exit(1);
  }
  return std::move(*cache);
}

// Bounded by entries_max; token budget and TTL are the defaults.
class SpillwayEngine {
 public:
  explicit SpillwayEngine(std::size_t entries, const char* policy = "score") {
    Options options;
    options.policy = policy;
    options.entries_max = entries;
    options.capacity = 64 * kMiB;  // More than the values need: entries_max is the limit.
    cache_ = OpenOrStop(options);
  }

  std::uint64_t Get(const Request& request) {
    const auto got = cache_->Get(request.key());
    return got->has_value() ? reinterpret_cast<std::uintptr_t>((*got)->data()) : 0;
  }
  // The same, and reads the value's bytes while it is leased.
  std::uint64_t GetAndRead(const Request& request) {
    const auto got = cache_->Get(request.key());
    return got->has_value() ? *reinterpret_cast<const std::uint64_t*>((*got)->data()) : 0;
  }
  static constexpr std::size_t kMany = 32;
  // Returns the number of hits among `kMany` requests.
  std::uint64_t GetMany(const Request* requests) {
    std::array<std::string_view, kMany> keys;
    std::array<Lease, kMany> leases;
    for (std::size_t i = 0; i < kMany; ++i) keys[i] = requests[i].key();
    return cache_->GetMany(keys.data(), kMany, leases.data());
  }
  void Put(const Request& request) {
    if (!cache_->Set(request.key(), Source(&request.value, sizeof request.value))) {
      std::fprintf(stderr, "a set was refused\n");
      std::exit(1);
    }
  }
  Cache& cache() { return *cache_; }

 private:
  std::unique_ptr<Cache> cache_;
};

// The obvious implementation: a map and a list under a mutex. It has no leases; it copies the
// value.
class MutexLru {
 public:
  explicit MutexLru(std::size_t entries) : entries_max_(entries) { map_.reserve(entries); }

  std::uint64_t Get(const Request& request) {
    const Name name = NameOf(request);
    const std::lock_guard lock(mutex_);
    const auto found = map_.find(name);
    if (found == map_.end()) return 0;
    list_.splice(list_.begin(), list_, found->second);
    return found->second->value;
  }
  void Put(const Request& request) {
    const Name name = NameOf(request);
    const std::lock_guard lock(mutex_);
    if (map_.contains(name)) return;  // Another thread was first.
    list_.push_front({name, request.value});
    map_.emplace(name, list_.begin());
    if (map_.size() <= entries_max_) return;
    map_.erase(list_.back().name);
    list_.pop_back();
  }

 private:
  using Name = std::array<char, 16>;
  struct Entry {
    Name name;
    std::uint64_t value;
  };
  struct HashOfName {
    std::size_t operator()(const Name& name) const {
      return std::hash<std::string_view>()({name.data(), name.size()});
    }
  };
  static Name NameOf(const Request& request) { return std::to_array(request.key_bytes); }

  const std::size_t entries_max_;
  std::mutex mutex_;
  std::list<Entry> list_;  // Most recently used first. Guarded by mutex_, like the map.
  std::unordered_map<Name, std::list<Entry>::iterator, HashOfName> map_;
};

#if defined(SPILLWAY_HAVE_ROCKSDB)
// RocksDB's caches with the best settings: the value is the pointer itself, so nothing is allocated
// or dereferenced for it; no statistics; metadata is not charged, so that capacity counts entries.
class RocksEngine {
 public:
  static RocksEngine Lru(std::size_t entries, int shard_bits) {
    rocksdb::LRUCacheOptions options;
    options.capacity = entries;
    options.num_shard_bits = shard_bits;
    options.metadata_charge_policy = rocksdb::kDontChargeCacheMetadata;
    return RocksEngine(rocksdb::NewLRUCache(options));
  }
  // Every entry is charged 1, and the table is sized for that. It chooses the number of shards
  // itself: one, at this size.
  static RocksEngine HyperClock(std::size_t entries) {
    rocksdb::HyperClockCacheOptions options(entries, /*_estimated_entry_charge=*/1);
    options.metadata_charge_policy = rocksdb::kDontChargeCacheMetadata;
    return RocksEngine(options.MakeSharedCache());
  }

  std::uint64_t Get(const Request& request) {
    rocksdb::Cache::Handle* handle = cache_->Lookup(SliceOf(request));
    if (handle == nullptr) return 0;
    const auto value = reinterpret_cast<std::uintptr_t>(cache_->Value(handle));
    cache_->Release(handle);
    return value;
  }
  void Put(const Request& request) {
    // Refused only if every entry is referenced; then it is a miss again.
    cache_->Insert(SliceOf(request), reinterpret_cast<void*>(request.value), 1, &Forget)
        .PermitUncheckedError();
  }

 private:
  explicit RocksEngine(std::shared_ptr<rocksdb::Cache> cache) : cache_(std::move(cache)) {}
  static rocksdb::Slice SliceOf(const Request& request) {
    return {request.key_bytes, sizeof request.key_bytes};
  }
  static void Forget(const rocksdb::Slice&, void*) {}

  std::shared_ptr<rocksdb::Cache> cache_;
};
#endif

}  // namespace spillway::bench
