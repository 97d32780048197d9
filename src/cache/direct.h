// Direct is the cache for an event loop: the calls that never wait. Where the
// public Cache would wait for room or for the disk, these say so, and the loop
// serves somebody else meanwhile. It also has what a server of keys needs and an
// engine does not: room for a value that arrives bit by bit, deadlines that
// change, and walking over all keys.
//
// Any thread. A Direct lives shorter than its Cache, and so do reservations.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "cache/core.h"
#include "spillway/cache.h"

namespace spillway {

// Room in a tier's memory for one value, seen by nobody until it is committed.
// Given up when it goes uncommitted.
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
  bool was_there_ = false;  // The key was, and made room for it.
};

class Direct {
 public:
  explicit Direct(Cache* cache) : core_(Core::Of(*cache)) {}

  // How a write went. `soon`: room is being made for it; ask again in a moment.
  // `on_disk`: only the disk takes it now, and that takes its time: Submit it.
  // `was_new`: the key was not there before.
  struct Wrote {
    Status status;
    bool soon = false;
    bool on_disk = false;
    bool was_new = false;
  };
  // `deadline`: the end of its own ttl, by the cache's clock.
  Wrote Set(std::string_view key, std::string_view value, const SetOptions& options,
            TimePoint deadline = TimePoint::max());
  Wrote Reserve(std::string_view key, Bytes bytes, const SetOptions& options,
                Reservation* reservation);
  // All of its bytes have been written.
  Wrote Commit(Reservation* reservation, TimePoint deadline = TimePoint::max());
  // The same with options in place of those it was reserved with; where they are
  // refused the room is given up.
  Wrote CommitAs(Reservation* reservation, const SetOptions& options, TimePoint deadline);

  // What is in memory the host can read, leased; kBelow: it has to be fetched, by Submit.
  Core::Found Find(std::string_view key, Lease* lease) {
    return core_->Find(key, Place::kHost, lease);
  }
  bool Contains(std::string_view key) { return core_->Contains(key); }
  // What `said` says of the next use of what is there: its hint, when, its step,
  // what computing it anew would take. No use by itself.
  void Advise(std::string_view key, const SetOptions& said);

  // True: it was there, and its time was not over.
  bool Erase(std::string_view key);
  void Clear();

  // Empty: no such key. TimePoint::max(): no end.
  std::optional<TimePoint> DeadlineOf(std::string_view key);
  enum class Changed : std::uint8_t { kYes, kAbsent, kSetAnew };
  // kSetAnew: it can't be changed in place; set the same bytes again.
  Changed ChangeDeadline(std::string_view key, TimePoint deadline);

  // Facts of an entry, without using it.
  struct Facts {
    Bytes bytes = 0;
    Bytes held = 0;  // With its key and all that is kept about it.
    std::uint64_t accesses = 0;
    Duration idle{};
    bool idle_ttl = true;  // SetOptions::idle_ttl.
  };
  std::optional<Facts> FactsOf(std::string_view key);

  // Shows `visit` some keys (those of one bucket of the index) and returns the
  // next cursor; 0: that was all. See Index::Scan. The views die with the call,
  // which is on the strand: be quick.
  std::uint64_t Scan(std::uint64_t cursor, const std::function<void(std::string_view)>& visit);
  // The same for up to `buckets` of them, at once.
  std::uint64_t Scan(std::uint64_t cursor, std::size_t buckets,
                     const std::function<void(std::string_view)>& visit);

  // After writes: whether the disk still has to be told, lest something old come
  // back after a kill. Answer clients after Cache::Settle, then.
  bool needs_settling() const;

  Clock& clock() const { return core_->clock(); }
  TimePoint Now() const { return core_->clock().Now(); }

 private:
  // A slot with room in memory that the host can write to. Empty: `wrote` says why.
  std::optional<std::uint32_t> AdmitInMemory(const NewEntry& entry, TimePoint now, Wrote* wrote);
  Wrote CommitSlot(std::uint32_t slot, const SetOptions& options, TimePoint deadline, TimePoint now,
                   bool absent = false);
  Core* core_;
};

}  // namespace spillway
