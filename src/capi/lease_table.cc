#include "capi/lease_table.h"

#include <atomic>
#include <memory>
#include <new>
#include <utility>

#include "capi/handle.h"

namespace spillway::capi {

LeaseTable& LeaseTable::Instance() {
  static std::atomic<LeaseTable*> current{nullptr};  // Outlives main on purpose.
  LeaseTable* table = current.load(std::memory_order_acquire);
  if (table != nullptr && table->forks_ == ForkCount()) return *table;
  std::unique_ptr<LeaseTable> fresh(new LeaseTable(ForkCount()));
  if (current.compare_exchange_strong(table, fresh.get())) return *fresh.release();
  return *table;  // Another thread was quicker.
}

LeaseTable::Place* LeaseTable::Shard::Find(std::uint64_t handle) {
  const std::uint64_t at = PlaceOf(handle);
  if (at >= places.size()) return nullptr;
  const auto tenant = static_cast<std::uint32_t>(handle >> 32);
  return tenant % 2 == 1 && places[at].tenant == tenant ? &places[at] : nullptr;
}

std::uint64_t LeaseTable::Put(Lease lease) {
  // Each thread stays with its shard, so that threads rarely meet.
  static std::atomic<std::size_t> threads{0};
  static thread_local const std::size_t mine = threads.fetch_add(1) % kShards;
  Shard& shard = shards_.at(mine);
  const std::lock_guard lock(shard.mutex);
  if (shard.unused.empty()) {
    if (shard.places.size() >= kPlacesMax) throw std::bad_alloc();
    shard.unused.push_back(static_cast<std::uint32_t>(shard.places.size()));
    // So that Take, which must not fail, finds room to put every place back.
    shard.unused.reserve(shard.places.size() + 1);
    // A handle of the parent's must not name one of ours.
    shard.places.push_back({Lease(), static_cast<std::uint32_t>(forks_ << 16)});
  }
  const std::uint32_t at = shard.unused.back();
  shard.unused.pop_back();
  Place& place = shard.places[at];
  place.lease = std::move(lease);
  ++place.tenant;
  return std::uint64_t{place.tenant} << 32 | std::uint64_t{at} * kShards | mine;
}

bool LeaseTable::Take(std::uint64_t handle, Lease* lease) {
  Shard& shard = shards_.at(ShardOf(handle));
  const std::lock_guard lock(shard.mutex);
  Place* place = shard.Find(handle);
  if (place == nullptr) return false;
  *lease = std::move(place->lease);
  ++place->tenant;
  shard.unused.push_back(static_cast<std::uint32_t>(PlaceOf(handle)));
  return true;
}

}  // namespace spillway::capi
