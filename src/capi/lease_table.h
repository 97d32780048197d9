// Leases in the hands of C: numbers that can be checked. A handle names a place
// in this table and the tenant it was made for, so that one released twice, or
// never given out, is told from a good one. One table for the whole process,
// since leases outlive their cache; it is never destroyed, since they may
// outlive main. A child of a fork begins with an empty one: somebody may have
// held a lock of the other at that moment, and its leases are the parent's.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

#include "spillway/cache.h"

namespace spillway::capi {

class LeaseTable {
 public:
  static LeaseTable& Instance();

  // Never 0.
  std::uint64_t Put(Lease lease);
  // False: not a lease of ours, or not any more.
  bool Take(std::uint64_t handle, Lease* lease);
  // Calls `read` with the lease while nobody can release it.
  template <typename Read>
  bool With(std::uint64_t handle, Read&& read) {
    Shard& shard = shards_.at(ShardOf(handle));
    const std::lock_guard lock(shard.mutex);
    const Place* place = shard.Find(handle);
    if (place != nullptr) read(place->lease);
    return place != nullptr;
  }

 private:
  explicit LeaseTable(std::uint64_t forks) : forks_(forks) {}

  // tenant (32) | place (28) | shard (4)
  static constexpr std::size_t kShards = 16;
  static constexpr std::uint64_t kPlacesMax = std::uint64_t{1} << 28;

  struct Place {
    Lease lease;
    std::uint32_t tenant;  // Changes whenever the lease comes or goes; odd while it is here.
  };
  struct alignas(64) Shard {
    std::mutex mutex;
    std::vector<Place> places;  // Guarded by mutex, as all here.
    std::vector<std::uint32_t> unused;

    Place* Find(std::uint64_t handle);
  };

  static std::size_t ShardOf(std::uint64_t handle) { return handle % kShards; }
  static std::uint64_t PlaceOf(std::uint64_t handle) { return (handle / kShards) % kPlacesMax; }

  const std::uint64_t forks_;  // When it was made.
  std::array<Shard, kShards> shards_;
};

}  // namespace spillway::capi
