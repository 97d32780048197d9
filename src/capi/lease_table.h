// SPDX-License-Identifier: Apache-2.0
// The leases that C callers hold, as numbers that can be checked. A handle names a place in this
// table and the number of its tenant, so that a handle that was released already, or never given
// out, is detected. There is one table per process, since leases outlive their cache. It is never
// destroyed, since leases may outlive main. The child of a fork starts with an empty table: the
// parent's leases are not the child's, and a thread that does not exist in the child may hold a
// lock of the old table.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/mutex.h"
#include "spillway/cache.h"

namespace spillway::capi {

class LeaseTable {
 public:
  // The table of this process; a new one after a fork.
  static LeaseTable& Instance();

  // Stores a lease and returns its handle, which is never 0.
  std::uint64_t Put(Lease lease);
  // Moves the lease out. False: the handle is unknown or was released.
  bool Take(std::uint64_t handle, Lease* lease);
  // Calls `read` with the lease, which cannot be released meanwhile. False: unknown handle.
  template <typename Read>
  bool With(std::uint64_t handle, Read&& read) {
    Shard& shard = shards_.at(ShardOf(handle));
    const MutexLock lock(shard.mutex);
    const Place* place = shard.Find(handle);
    if (place != nullptr) read(place->lease);
    return place != nullptr;
  }

 private:
  explicit LeaseTable(std::uint64_t forks) : forks_(forks) {}

  // tenant (32) | place (28) | shard (4)
  static constexpr std::size_t kShards = 16;
  static constexpr std::uint64_t kPlacesMax = std::uint64_t{1} << 28;

  // One place of the table: a lease, or unused.
  struct Place {
    Lease lease;
    // Counts up whenever a lease is put in or taken out; odd while one is here.
    std::uint32_t tenant;
  };
  // A part of the table with a lock of its own.
  struct alignas(64) Shard {
    Mutex mutex;
    std::vector<Place> places SPILLWAY_GUARDED_BY(mutex);
    std::vector<std::uint32_t> unused SPILLWAY_GUARDED_BY(mutex);

    Place* Find(std::uint64_t handle) SPILLWAY_REQUIRES(mutex);
  };

  static std::size_t ShardOf(std::uint64_t handle) { return handle % kShards; }
  static std::uint64_t PlaceOf(std::uint64_t handle) { return (handle / kShards) % kPlacesMax; }

  const std::uint64_t forks_;  // ForkCount when the table was made.
  std::array<Shard, kShards> shards_;
};

}  // namespace spillway::capi
