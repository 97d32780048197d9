// The Store owns entries: their slots, their bytes in the tier, their links to
// parents, and the account of all that. It decides nothing. Strand only, but
// for the index's lock-free Find.
//
// Invariants
//   1. bytes() = bytes of live entries + of zombies + of reservations, and
//      equals tier()->allocated().
//   2. A slot is free, or a reservation, or linked (live), or a zombie.
//   3. children of a live entry = live entries whose link names its generation.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "cache/index.h"
#include "cache/slot.h"
#include "policy/facts.h"
#include "spillway/cache.h"
#include "spillway/result.h"
#include "tier/tier.h"

namespace spillway {

// What a set needs to be stored.
struct NewEntry {
  std::string_view key;
  std::uint64_t hash = 0;
  Bytes bytes = 0;
  SetOptions options;
};

class Store final : public FactReader {
 public:
  struct Settings {
    std::uint64_t entries_max = 0;
    int hash_bits = 64;
    bool keeps_lineage = true;
  };
  static Result<std::unique_ptr<Store>> Open(const Settings& settings, std::unique_ptr<Tier> tier);
  ~Store() override;

  // --- reservations ---

  // Memory and a slot for `entry`; NoMemory or Busy, and then nothing changed.
  Result<std::uint32_t> Reserve(const NewEntry& entry, TimePoint now);
  void Abort(std::uint32_t slot);
  // Makes a reservation findable. `old`: the key's generation before, whose
  // place it takes and which is hidden from now on; kNoSlot: the key is new.
  EntryId Commit(std::uint32_t slot, std::uint32_t old, TimePoint now);

  // --- removal ---

  // Fetches what Hide and Retire will touch, of a slot that has been read.
  void PrefetchRemoval(std::uint32_t slot) const;
  // Not findable any more. Comes before Kill: the last reader of a zombie
  // chains it to others that wait to be reaped, by the index's own link.
  void Hide(std::uint32_t slot) { index_->Unlink(slot); }
  // Whoever keeps the slot after the state has changed.
  enum class Fate : std::uint8_t { kFreed, kZombie };
  // Off the account of live entries. The slot must be hidden, and have been
  // moved out of kVisible by TryEvict (owned) or Kill.
  Fate Retire(std::uint32_t slot, bool owned);
  // The last lease on a zombie is gone.
  void Reap(std::uint32_t slot);

  // Takes one child from the parent of `slot`, if that is live, and returns
  // it; Attach undoes it. Retire does not detach again.
  std::uint32_t Detach(std::uint32_t slot);
  void Attach(std::uint32_t slot);

  // --- facts ---

  bool Read(EntryId id, Facts* facts) const override;
  std::uint8_t* Marks(EntryId id) const override;
  void ReadMany(std::span<const EntryId> ids, Facts* facts, std::uint8_t** marks) const override;
  void Prefetch(EntryId id) const override;
  Facts FactsOf(std::uint32_t slot) const;
  EntryId IdOf(std::uint32_t slot) const {
    return {slot, static_cast<std::uint32_t>(slots_->record(slot).generation)};
  }
  bool IsLive(EntryId id) const;
  std::uint64_t Leases(std::uint32_t slot) const {
    return LeaseWord::LeasesOf(slots_->slot(slot).word.Load());
  }
  // The live parent of `slot`, or kNoSlot.
  std::uint32_t ParentOf(std::uint32_t slot) const;

  Index& index() { return *index_; }
  const Index& index() const { return *index_; }
  SlotTable& slots() { return *slots_; }
  const SlotTable& slots() const { return *slots_; }
  Tier* tier() { return tier_.get(); }
  const Tier* tier() const { return tier_.get(); }

  Bytes bytes() const { return bytes_; }
  Bytes names_bytes() const { return names_bytes_; }
  static Bytes NamesBytesOf(const NewEntry& entry);
  std::size_t entries() const { return entries_.load(std::memory_order_relaxed); }
  Tokens tokens() const { return tokens_.load(std::memory_order_relaxed); }
  Tokens tokens_reserved() const { return tokens_reserved_; }
  std::size_t reservations() const { return reservations_; }
  std::size_t zombies() const { return zombies_; }
  std::uint64_t departed_hits() const { return departed_hits_.load(std::memory_order_relaxed); }
  Bytes index_bytes() const;

 private:
  Store(std::unique_ptr<SlotTable> slots, std::unique_ptr<Index> index, std::unique_ptr<Tier> tier,
        const Settings& settings);
  void WriteNames(std::uint32_t slot, const NewEntry& entry, TimePoint now);
  void Discard(std::uint32_t slot);  // Bytes, names and slot go back.

  const std::unique_ptr<SlotTable> slots_;
  const std::unique_ptr<Index> index_;
  const std::unique_ptr<Tier> tier_;
  const bool keeps_lineage_;

  std::uint64_t generations_ = 0;
  std::uint64_t places_ = 0;
  Bytes bytes_ = 0;
  Bytes names_bytes_ = 0;
  Tokens tokens_reserved_ = 0;
  std::size_t reservations_ = 0;
  std::size_t zombies_ = 0;
  std::atomic<std::size_t> entries_{0};
  std::atomic<Tokens> tokens_{0};
  std::atomic<std::uint64_t> departed_hits_{0};
};

}  // namespace spillway
