// SPDX-License-Identifier: Apache-2.0
#include "capi/lease_table.h"

#include <atomic>
#include <memory>
#include <new>
#include <utility>

#include "capi/handle.h"

namespace spillway::capi {

LeaseTable& LeaseTable::Instance() {
  static std::atomic<LeaseTable*> current{nullptr};  // Never destroyed; see the header.
  LeaseTable* table = current.load(std::memory_order_acquire);
  if (table != nullptr && table->forks_ == ForkCount()) return *table;
  std::unique_ptr<LeaseTable> fresh(new LeaseTable(ForkCount()));
  if (current.compare_exchange_strong(table, fresh.get())) return *fresh.release();
  return *table;  // Another thread was first.
}

LeaseTable::Place* LeaseTable::Shard::Find(std::uint64_t handle) {
  const std::uint64_t at = PlaceOf(handle);
  if (at >= places.size()) return nullptr;
  const auto tenant = static_cast<std::uint32_t>(handle >> 32);
  return tenant % 2 == 1 && places[at].tenant == tenant ? &places[at] : nullptr;
}

std::uint64_t LeaseTable::Put(Lease lease) {
  // Each thread keeps to one shard, so that threads rarely wait for each other's lock.
  static std::atomic<std::size_t> threads{0};
  static thread_local const std::size_t kMine = threads.fetch_add(1) % kShards;
  Shard& shard = shards_.at(kMine);
  const MutexLock lock(shard.mutex);
  if (shard.unused.empty()) {
    if (shard.places.size() >= kPlacesMax) throw std::bad_alloc();
    shard.unused.push_back(static_cast<std::uint32_t>(shard.places.size()));
    // Take must not fail, so `unused` can always hold every place.
    shard.unused.reserve(shard.places.size() + 1);
    // Tenants start at another number after a fork, so that the parent's handles are not valid
    // here.
    shard.places.push_back({Lease(), static_cast<std::uint32_t>(forks_ << 16)});
  }
  const std::uint32_t at = shard.unused.back();
  shard.unused.pop_back();
  Place& place = shard.places[at];
  place.lease = std::move(lease);
  ++place.tenant;
  return std::uint64_t{place.tenant} << 32 | std::uint64_t{at} * kShards | kMine;
}

bool LeaseTable::Take(std::uint64_t handle, Lease* lease) {
  Shard& shard = shards_.at(ShardOf(handle));
  const MutexLock lock(shard.mutex);
  Place* place = shard.Find(handle);
  if (place == nullptr) return false;
  *lease = std::move(place->lease);
  ++place->tenant;
  shard.unused.push_back(static_cast<std::uint32_t>(PlaceOf(handle)));
  return true;
}

}  // namespace spillway::capi
