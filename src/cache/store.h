// The Store owns entries: their slots, their copies in the tiers, their links
// to parents, and the account of all that. It decides nothing. Strand only, but
// for the index's lock-free Find.
//
// Invariants
//   1. bytes(tier) = bytes of all copies there: of live entries, of zombies, of
//      reservations and of transfers under way; it equals what the tier has
//      allocated.
//   2. A slot is free, or a reservation, or linked (live), or a zombie.
//   3. children[tier] of a live entry = live entries whose link names its
//      generation and that have a copy in that tier.
//   4. A live entry has a copy somewhere.
//   5. A block in memory is marked as backed in its tier exactly while its
//      entry has a copy further down.
//   6. Readers get the uppermost copy in memory; every one of those is verified.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "cache/index.h"
#include "cache/slot.h"
#include "cache/tier_stack.h"
#include "policy/facts.h"
#include "spillway/cache.h"
#include "spillway/result.h"

namespace spillway {

// What a set needs to be stored.
struct NewEntry {
  std::string_view key;
  std::uint64_t hash = 0;
  Bytes bytes = 0;
  SetOptions options;
  Place place = Place::kDevice;  // Its bytes enter here or below.
  bool reserved = false;         // It has its bytes and its slot already.
  bool absent = false;           // Its key was looked up in this event, and is not there.
};

// Room in a tier for one value.
struct Landing {
  std::byte* block = nullptr;  // In memory.
  BlobId blob = kNoBlob;       // On disk.
};

class Store {
 public:
  struct Settings {
    std::uint64_t entries_max = 0;
    int hash_bits = 64;
    bool keeps_lineage = true;
    // Unix time less the cache's clock, in nanoseconds: own ttls go to disk.
    std::int64_t unix_offset = 0;
  };
  static Result<std::unique_ptr<Store>> Open(const Settings& settings, TierStack tiers);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // --- reservations ---

  // Memory in `tier` and a slot for `entry`; NoMemory, Unavailable or Busy, and
  // then nothing changed.
  Result<std::uint32_t> Reserve(const NewEntry& entry, TierId tier, TimePoint now);
  // The same in the device's memory for an entry without names that nobody knows yet
  // (Inlet). Whoever has it writes hash, key, last use and bytes.
  Result<std::uint32_t> ReserveAhead(Bytes bytes);
  // Such a one was linked: the rest of Commit.
  void Enrol(std::uint32_t slot);
  // Whether an entry that leaves, hidden and owned, leaves just what ReserveAhead
  // would give; Recycle then is both Retire and that.
  bool IsLikeAhead(std::uint32_t slot, Bytes bytes) const;
  void Recycle(std::uint32_t slot);
  TierId ReservedIn(std::uint32_t slot) const;
  // The end of its own ttl. Nobody else may see the slot meanwhile. `spare` becomes
  // its Extra if it has none; without one there must be no need.
  void SetDeadline(std::uint32_t slot, TimePoint deadline, std::unique_ptr<Extra> spare);
  // What a reservation is told again: its names, tokens and parent, in place of
  // those it was made with; its deadline stays. Throws bad_alloc, and then all is
  // as it was.
  void Describe(std::uint32_t slot, const SetOptions& options);
  void Abort(std::uint32_t slot);
  // Makes a reservation findable. `old`: the key's generation before, whose
  // place it takes and which is hidden from now on; kNoSlot: the key is new.
  EntryId Commit(std::uint32_t slot, std::uint32_t old, TimePoint now);
  // The next generation of a live entry in the same place, all of it on the top
  // tier's memory: `write` fills it. False: it is leased by more than `pins`, and
  // nothing changed. `last`: it comes after all others (Facts::place), as if it had
  // left first.
  template <typename Write>
  bool Renew(std::uint32_t slot, std::uint64_t pins, bool last, TimePoint now, Write&& write) {
    return index_->Renew(
        slot,
        [&] {
          CountDeparted(LeaseWord::AcquiresOf(slots_->slot(slot).word.Load()));
          write(slots_->slot(slot).data.load(std::memory_order_relaxed));
          slots_->record(slot).generation = NextGeneration();
          if (last) slots_->record(slot).place = ++places_;
          slots_->slot(slot).last_use.store(now.time_since_epoch().count(),
                                            std::memory_order_relaxed);
        },
        pins);
  }
  // One that was found on disk: a reservation whose bytes are there already.
  // Busy: no slot.
  Result<std::uint32_t> Adopt(const BlobStore::Found& found, TimePoint now);
  // The parent it names, now that all are there.
  void LinkToParent(std::uint32_t slot, std::string_view parent, std::uint64_t blob_generation);

  // --- copies ---

  Result<Landing> Allocate(std::uint32_t slot, TierId tier);
  // For a landing that became no copy.
  void Free(TierId tier, const Landing& landing, Bytes bytes);
  // Below the device.
  void AddCopy(std::uint32_t slot, TierId tier, const Landing& landing);
  // From now on readers get it from the device. False: somebody reads it where
  // it was, and nothing changed.
  bool AddToDevice(std::uint32_t slot, const Landing& landing);
  // Not the last one. False: somebody reads that copy, and nothing changed.
  bool DropCopy(std::uint32_t slot, TierId tier);
  Below& BelowOf(std::uint32_t slot);  // Made if there is none.
  // The block of a copy in memory.
  std::byte* BlockIn(std::uint32_t slot, TierId tier) const;
  BlobFacts BlobFactsOf(std::uint32_t slot) const;

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
  // No blob is anybody's any more: the directory is free for others.
  // Destroy it off the strand: a thread of its own may be the one that runs it.
  std::unique_ptr<BlobStore> CloseDisk();
  // Its blob stays on disk, and is nobody's here any more.
  void Forsake(std::uint32_t slot);
  // The last lease on a zombie is gone.
  void Reap(std::uint32_t slot);

  // Takes one child from the parent of `slot` in each of `tiers`, if that is
  // live, and returns it; Attach undoes it. Retire does not detach again.
  std::uint32_t Detach(std::uint32_t slot, TierMask tiers);
  void Attach(std::uint32_t slot, TierMask tiers);

  // --- facts ---

  bool IsLive(EntryId id) const;
  EntryId IdOf(std::uint32_t slot) const {
    return {slot, static_cast<std::uint32_t>(slots_->record(slot).generation)};
  }
  // `children` are those with a copy in `tier`.
  Facts FactsOf(std::uint32_t slot, TierId tier) const;
  std::uint64_t Leases(std::uint32_t slot) const {
    return LeaseWord::LeasesOf(slots_->slot(slot).word.Load());
  }
  // Of those, what moves hold.
  std::uint64_t PinsOf(std::uint32_t slot) const {
    const Below* const below = slots_->record(slot).below;
    return below != nullptr && below->transfer != nullptr ? 1 : 0;
  }
  // The live parent of `slot`, or kNoSlot.
  std::uint32_t ParentOf(std::uint32_t slot) const;

  Index& index() { return *index_; }
  const Index& index() const { return *index_; }
  SlotTable& slots() { return *slots_; }
  const SlotTable& slots() const { return *slots_; }

  TierMask tiers() const { return mask_; }
  TierId top() const { return top_; }
  // Whether there is a device whose memory only it can read.
  bool on_gpu() const { return tiers_.device != nullptr && !tiers_.device->host_readable(); }
  // Where the bytes can be read in place: on the device, or else the uppermost
  // copy in host memory. Null: there is none.
  const std::byte* DataIn(std::uint32_t slot, std::optional<Place> where) const;
  Tier* memory(TierId tier) {
    return tier == TierId::kDevice ? tiers_.device.get() : tiers_.host.get();
  }
  const Tier* memory(TierId tier) const { return const_cast<Store*>(this)->memory(tier); }
  BlobStore* disk() { return tiers_.disk.get(); }
  const BlobStore* disk() const { return tiers_.disk.get(); }
  Bytes capacity(TierId tier) const;
  Bytes held(TierId tier) const;
  Bytes clean(TierId tier) const;
  std::string_view name(TierId tier) const;

  Bytes bytes(TierId tier) const { return bytes_[IndexOf(tier)]; }
  Bytes bytes() const { return bytes(top_); }
  // Of that, what also lies further down.
  Bytes backed_bytes(TierId tier) const { return backed_bytes_[IndexOf(tier)]; }
  // Values lent from memory of no tier.
  Bytes passing_bytes() const { return passing_bytes_; }
  void CountPassing(Bytes more, Bytes less) { passing_bytes_ = passing_bytes_ + more - less; }
  Bytes names_bytes() const { return names_bytes_; }
  // Some entry was ever told that no idle ttl is for it.
  bool some_stay() const { return some_stay_; }
  static Bytes NamesBytesOf(const NewEntry& entry);
  std::size_t entries() const { return enrolled_ + static_cast<std::uint64_t>(settled()); }
  // Entries that came by an event, less all who left, so it may be negative: who came
  // by the Inlet is counted there. Any thread.
  std::int64_t settled() const { return settled_.load(std::memory_order_acquire); }
  std::size_t entries(TierId tier) const { return entries_in_[IndexOf(tier)]; }
  Tokens tokens() const { return tokens_.load(std::memory_order_relaxed); }
  Tokens tokens_reserved() const { return tokens_reserved_; }
  std::size_t reservations() const { return reservations_; }
  std::size_t zombies() const { return zombies_; }
  std::uint64_t departed_hits() const { return departed_hits_.load(std::memory_order_relaxed); }
  Bytes index_bytes() const;

 private:
  Store(std::unique_ptr<SlotTable> slots, std::unique_ptr<Index> index, TierStack tiers,
        const Settings& settings);
  std::uint64_t NextGeneration();
  void CountDeparted(std::uint64_t accesses);
  void CountRetired(std::uint32_t slot);
  void WriteNames(std::uint32_t slot, const NewEntry& entry, TimePoint now);
  void NameParent(std::uint32_t slot, std::string_view parent);
  void ForgetNames(std::uint32_t slot);
  Result<Landing> AllocateIn(TierId tier, Bytes bytes, const BlobFacts& facts);
  void GiveBack(std::uint32_t slot, TierId tier, std::byte* block);
  void SetCopies(std::uint32_t slot, TierMask after);
  void Discard(std::uint32_t slot);  // Bytes, names and slot go back.

  const std::unique_ptr<SlotTable> slots_;
  const std::unique_ptr<Index> index_;
  TierStack tiers_;
  const TierMask mask_;
  const TierId top_;
  const bool keeps_lineage_;
  const std::int64_t unix_offset_;

  // What changes is kept apart from what every set and get reads.
  alignas(64) std::uint64_t generations_ = 0;
  std::uint64_t places_ = 0;
  std::array<Bytes, kTiers> bytes_{};
  std::array<Bytes, kTiers> backed_bytes_{};
  std::array<std::size_t, kTiers> entries_in_{};  // Live entries with a copy there.
  Bytes names_bytes_ = 0;
  bool some_stay_ = false;
  Bytes below_bytes_ = 0;
  Bytes passing_bytes_ = 0;
  Tokens tokens_reserved_ = 0;
  std::size_t reservations_ = 0;
  std::size_t zombies_ = 0;
  std::uint64_t enrolled_ = 0;
  std::atomic<std::int64_t> settled_{0};
  std::atomic<Tokens> tokens_{0};
  std::atomic<std::uint64_t> departed_hits_{0};
};

// One class of a tier's entries, as rankings read them: those with a copy
// below, or those without. Entries that may only leave after those that
// continue them are leaves or not; others always count as leaves.
class TierView final : public FactReader {
 public:
  TierView(const Store* store, TierId tier, bool backed, bool leaves_only)
      : store_(store), tier_(tier), backed_(backed), leaves_only_(leaves_only) {}

  bool Holds(const Record& record) const {
    return Has(record.copies, tier_) && record.backed_in(tier_) == backed_;
  }
  bool leaves_only() const { return leaves_only_; }
  bool Read(EntryId id, Facts* facts) const override;
  RankMarks* Marks(EntryId id) const override;
  void ReadMany(std::span<const EntryId> ids, Facts* facts, RankMarks** marks) const override;
  void Prefetch(EntryId id) const override;
  void PrefetchMarks(EntryId id) const override;

 private:
  bool ReadOne(EntryId id, Facts* facts) const;

  const Store* const store_;
  const TierId tier_;
  const bool backed_;
  const bool leaves_only_;
};

}  // namespace spillway
