// SPDX-License-Identifier: Apache-2.0
// Direct is the cache for an event loop: calls that never wait. Where the public Cache
// would wait for room or for the disk, these calls say so, and the loop serves another
// client meanwhile. Direct also has what a server of keys needs and an engine does not:
// memory for a value that arrives in pieces, deadlines that change, and a scan over all
// keys.
//
// Any thread. A Direct and its reservations must not outlive their Cache.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cache/core.h"
#include "spillway/cache.h"

namespace spillway {

// Memory in a tier for one value, invisible until it is committed. Destroying a
// reservation that was not committed aborts it.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept { *this = std::move(other); }
  Reservation& operator=(Reservation&& other) noexcept;
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  ~Reservation() { Abort(); }

  explicit operator bool() const { return core_ != nullptr; }
  std::byte* data() const { return data_; }
  Bytes size() const { return size_; }
  void Abort() noexcept;

 private:
  friend class Direct;
  Core* core_ = nullptr;
  std::uint32_t slot_ = 0;
  std::byte* data_ = nullptr;
  Bytes size_ = 0;
  bool was_there_ = false;  // The key was, and was removed to make room.
};

class Direct {
 public:
  explicit Direct(Cache* cache) : core_(Core::Of(*cache)) {}

  // The result of a write. `soon`: room is being made for it; try again in a moment.
  // `on_disk`: only the disk takes it now, which needs time: use Submit. `was_new`: the
  // key did not exist before. `old_in_way`: there is no room beside the key's old value,
  // which had to stay.
  struct Wrote {
    Status status;
    bool soon = false;
    bool on_disk = false;
    bool was_new = false;
    bool old_in_way = false;
  };
  // `deadline`: the end of its own ttl, by the cache's clock.
  Wrote Set(std::string_view key, std::string_view value, const SetOptions& options,
            TimePoint deadline = TimePoint::max());
  // kStays: the key's old value is not what room is made of, since the new one may never
  // come, or not be wanted when it has. It is replaced by the commit.
  enum class Old : std::uint8_t { kMayGo, kStays };
  Wrote Reserve(std::string_view key, Bytes bytes, const SetOptions& options,
                Reservation* reservation, Old old = Old::kMayGo);
  // Call it when all bytes have been written.
  Wrote Commit(Reservation* reservation, TimePoint deadline = TimePoint::max());
  // The same with options that replace those given to Reserve. If they are refused, the
  // reservation is aborted.
  Wrote CommitAs(Reservation* reservation, const SetOptions& options, TimePoint deadline);

  // As Cache::Submit. `ttl_from`: when the ttls of its sets began, so that a deadline that was
  // given as a time is that time, however late it is submitted.
  void Submit(Operation* operations, std::size_t count, Duration within, Completion done,
              TimePoint ttl_from);

  // Leases a value in memory that the host can read; kBelow: it has to be fetched by
  // Submit.
  Core::Found Find(std::string_view key, Lease* lease) {
    return core_->Find(key, Place::kHost, lease);
  }
  bool Contains(std::string_view key) { return core_->Contains(key); }
  // What `said` predicts about the next use of an existing entry: its hint, the time,
  // its step, and what recomputing it would cost. Does not count as a use.
  void Advise(std::string_view key, const SetOptions& said);

  // True: the key existed and had not expired.
  bool Erase(std::string_view key);
  void Clear();

  // Empty: no such key. TimePoint::max(): no deadline.
  std::optional<TimePoint> DeadlineOf(std::string_view key);
  enum class Changed : std::uint8_t { kYes, kAbsent };
  // Never waits and needs no room, wherever the value is and even while it is leased.
  // Acknowledge it as a write (has_pending_deletes).
  Changed ChangeDeadline(std::string_view key, TimePoint deadline);

  // Facts of an entry. Reading them does not count as a use.
  struct Facts {
    Bytes bytes = 0;
    Bytes held = 0;  // With its key and metadata.
    std::uint64_t accesses = 0;
    Duration idle{};
    bool idle_ttl = true;  // SetOptions::idle_ttl.
  };
  std::optional<Facts> FactsOf(std::string_view key);

  // --- groups of keys (Options::key_group) ---

  // The number of keys of each group, and how many of those have a deadline. Exact;
  // expired keys count until they are removed.
  std::array<Index::Count, kKeyGroups> CountGroups();
  Index::Count CountOf(std::uint8_t group) { return CountGroups().at(group); }
  // Whether the cache was opened with this function.
  bool groups_by(std::uint8_t (*key_group)(std::string_view key)) const {
    return core_->engine().store().groups_by(key_group);
  }
  // Removes all keys of one group and no others.
  void ClearGroup(std::uint8_t group);
  // A random key of that group, all equally likely; `random` is the source of
  // randomness. Empty: there is none.
  std::string AnyKey(std::uint8_t group, std::uint64_t random);

  // Calls `visit` with some keys (those of one bucket of the index) and returns the
  // next cursor; 0: that was all. See Index::Scan. `visit` runs on the strand and must
  // be quick; its argument is valid only during the call.
  std::uint64_t Scan(std::uint64_t cursor, const std::function<void(std::string_view)>& visit);
  // The same for up to `buckets` buckets in one call. With a group, buckets without a
  // key of that group are skipped; keys of other groups may still be visited.
  std::uint64_t Scan(std::uint64_t cursor, std::size_t buckets,
                     const std::function<void(std::string_view)>& visit,
                     std::optional<std::uint8_t> group = {});

  // Whether the disk is still being read in: a missing key may yet be found.
  bool loading() const { return core_->loading(); }

  // After writes: whether the disk has not recorded them yet, so that an older value
  // could come back after a kill. Then answer clients only after Cache::FlushDeletes.
  bool has_pending_deletes() const;

  Clock& clock() const { return core_->clock(); }
  TimePoint Now() const { return core_->clock().Now(); }

 private:
  // A slot with memory that the host can write to. Empty: `wrote` says why.
  std::optional<std::uint32_t> AdmitInMemory(const NewEntry& entry, TimePoint now, Wrote* wrote);
  Wrote CommitSlot(std::uint32_t slot, const SetOptions& options, TimePoint deadline, TimePoint now,
                   bool absent = false);
  Core* core_;
};

}  // namespace spillway
