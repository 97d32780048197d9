// SPDX-License-Identifier: Apache-2.0
// The Store owns entries: their slots, their copies in the tiers, their links to
// parents, and the accounts of all of these. It decides nothing: the engine says what
// is stored, copied and removed. Every function must run on the strand, except the
// index's lock-free Find and the getters marked "any thread".
//
// Invariants
//   1. bytes(tier) = the bytes of all copies in that tier: those of live entries, of
//      zombies, of reservations and of transfers in flight. It equals what the tier has
//      allocated.
//   2. A slot is free, or a reservation, or linked (a live entry), or a zombie
//      (removed, but still leased).
//   3. children[tier] of a live entry = the number of live entries whose parent link
//      names its generation and that have a copy in that tier.
//   4. A live entry has at least one copy.
//   5. A block in memory is marked clean in its tier exactly while its entry also has a
//      copy in a lower tier.
//   6. Readers get the uppermost copy in memory; every such copy is verified.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "cache/index.h"
#include "cache/slot.h"
#include "cache/tier_stack.h"
#include "policy/facts.h"
#include "spillway/cache.h"
#include "spillway/result.h"

namespace spillway {

// All that the Store needs to know about a value that is being set.
struct NewEntry {
  std::string_view key;
  std::uint64_t hash = 0;
  Bytes bytes = 0;
  SetOptions options;
  Place place = Place::kDevice;  // Where its bytes lie: they enter here or below.
  bool reserved = false;         // Its memory and its slot are allocated already.
  bool absent = false;           // Its key was looked up in this event and not found.
  // Its bytes are still to arrive, or its writer may decide against it: the key's
  // previous generation is not evicted for it and stays until the commit.
  bool old_stays = false;
  // Where the previous generation makes room it goes last, when a tier is sure to take
  // this one: a set that is refused leaves it.
  bool old_goes_last = false;
  // From when its ttl counts; empty: from the moment of Reserve.
  std::optional<TimePoint> ttl_from = {};
};

// Space allocated in one tier for one value: the destination of a copy.
struct CopyDestination {
  std::byte* block = nullptr;  // In memory.
  BlobId blob = kNoBlob;       // On disk.
};

class Store {
 public:
  struct Settings {
    std::uint64_t entries_max = 0;
    int hash_bits = 64;
    HashSeed hash_seed;
    std::uint8_t (*key_group)(std::string_view key) = nullptr;  // Options::key_group.
    bool keeps_lineage = true;
    // Unix time minus the cache's clock, in nanoseconds: blobs store deadlines as Unix
    // time.
    std::int64_t unix_offset = 0;
  };
  static Result<std::unique_ptr<Store>> Open(const Settings& settings, TierStack tiers);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // --- reservations ---

  // Takes a slot for `entry` and allocates its bytes in `tier`. Errors: NoMemory,
  // Unavailable or Busy (no slot); then nothing has changed.
  Result<std::uint32_t> Reserve(const NewEntry& entry, TierId tier, TimePoint now);
  // The tier in which a reservation has its memory.
  TierId ReservedIn(std::uint32_t slot) const;
  // The group of a key. Must be written into a slot together with the key.
  std::uint8_t GroupOf(std::string_view key) const {
    const std::uint8_t group = key_group_ == nullptr ? 0 : key_group_(key);
    return group < kKeyGroups ? group : 0;
  }
  bool groups_by(std::uint8_t (*key_group)(std::string_view key)) const {
    return key_group == key_group_;
  }
  // Sets or clears the end of the entry's own ttl; the entry may be leased. `spare`
  // becomes its Extra if it has none; `spare` may be null only if none is needed.
  void SetDeadline(std::uint32_t slot, TimePoint deadline, std::unique_ptr<Extra> spare);
  // Replaces the names, tokens and parent that a reservation was made with; its
  // deadline stays. Throws bad_alloc, and then nothing has changed.
  void Describe(std::uint32_t slot, const SetOptions& options);
  // Gives back the memory and the slot of a reservation.
  void Abort(std::uint32_t slot);
  // Makes a reservation findable. `old`: the slot of the key's present generation; the
  // new one takes over its position (Facts::place), and `old` can't be found from now
  // on. kNoSlot: the key is new.
  EntryId Commit(std::uint32_t slot, std::uint32_t old, TimePoint now);
  // Makes a reservation for a value that was found on disk: its bytes are there
  // already. Busy: no slot is free.
  Result<std::uint32_t> Adopt(const BlobStore::Found& found, TimePoint now);
  // Links `slot` to the parent its blob names. Call it after the whole disk has been
  // read in.
  void LinkToParent(std::uint32_t slot, std::string_view parent, std::uint64_t blob_generation);

  // --- copies ---

  // Allocates space for one more copy of `slot`.
  Result<CopyDestination> Allocate(std::uint32_t slot, TierId tier);
  // Frees a destination that did not become a copy.
  void Free(TierId tier, const CopyDestination& destination, Bytes bytes);
  // Adds a verified copy in a tier below the device.
  void AddCopy(std::uint32_t slot, TierId tier, const CopyDestination& destination);
  // Adds a verified copy on the device; readers get that one from now on. False: a
  // reader holds a lease on the copy it would replace, and nothing changed.
  bool AddToDevice(std::uint32_t slot, const CopyDestination& destination);
  // Drops one copy, which must not be the last. False: that copy is leased, and nothing
  // changed.
  bool DropCopy(std::uint32_t slot, TierId tier);
  LowerCopies& LowerCopiesOf(std::uint32_t slot);  // Created if there is none.
  // The address of a copy in memory; null: there is none.
  std::byte* BlockIn(std::uint32_t slot, TierId tier) const;
  BlobFacts BlobFactsOf(std::uint32_t slot) const;
  // The end of its own ttl as Unix time, as blobs store it; empty: none.
  std::optional<std::int64_t> ExpiresUnixNs(std::uint32_t slot) const;

  // --- removal ---

  // Prefetches the memory that Hide and Retire will touch. The slot must have been read
  // before.
  void PrefetchRemoval(std::uint32_t slot) const;
  // Makes an entry unfindable. Must come before Kill: the last reader of a zombie links
  // it into the list of slots to reap, through the same Slot::next that the index uses
  // until then.
  void Hide(std::uint32_t slot) { index_->Unlink(slot); }
  // What became of the slot: freed, or kept as a zombie until its last lease is
  // released.
  enum class Fate : std::uint8_t { kFreed, kZombie };
  // Takes an entry out of the account of live entries. The slot must be hidden and no
  // longer kVisible; `owned`: TryEvict or Kill has made the caller its owner.
  Fate Retire(std::uint32_t slot, bool owned);
  // Frees the blobs of zombies and gives up the disk tier, so that another process can
  // open its directory. Destroy the result outside the strand: the present thread may
  // be one of the BlobStore's own.
  std::unique_ptr<BlobStore> CloseDisk();
  // Forgets the disk copy of an entry; its blob stays on disk for the next start.
  void Forsake(std::uint32_t slot);
  // Frees a zombie whose last lease has been released.
  void Reap(std::uint32_t slot);

  // Subtracts `slot` from its parent's children in each of `tiers` and returns the
  // parent, or kNoSlot if there is no live one. Attach undoes it. Retire does not do it
  // again.
  std::uint32_t Detach(std::uint32_t slot, TierMask tiers);
  void Attach(std::uint32_t slot, TierMask tiers);

  // --- facts ---

  bool IsLive(EntryId id) const;
  EntryId IdOf(std::uint32_t slot) const {
    return {slot, static_cast<std::uint32_t>(slots_->record(slot).generation)};
  }
  // Facts::children counts entries that have a copy in `tier`.
  Facts FactsOf(std::uint32_t slot, TierId tier) const;
  std::uint64_t Leases(std::uint32_t slot) const {
    return LeaseWord::LeasesOf(slots_->slot(slot).word.Load());
  }
  // How many of these leases a transfer holds: 0 or 1.
  std::uint64_t PinsOf(std::uint32_t slot) const {
    const LowerCopies* const below = slots_->record(slot).below;
    return below != nullptr && below->transfer != nullptr ? 1 : 0;
  }
  // Gives back memory kept for entries that no longer exist.
  void Shrink();
  // The live parent of `slot`, or kNoSlot.
  std::uint32_t ParentOf(std::uint32_t slot) const;

  Index& index() { return *index_; }
  const Index& index() const { return *index_; }
  SlotTable& slots() { return *slots_; }
  const SlotTable& slots() const { return *slots_; }

  TierMask tiers() const { return mask_; }
  TierId top() const { return top_; }
  // Whether there is a device whose memory only the device can read (a GPU).
  bool on_gpu() const { return tiers_.device != nullptr && !tiers_.device->host_readable(); }
  // Where the bytes can be read in place: on the device, or otherwise the uppermost
  // copy in host memory. Null: there is no such copy.
  const std::byte* DataIn(std::uint32_t slot, std::optional<Place> where) const;
  Tier* memory(TierId tier) {
    return tier == TierId::kDevice ? tiers_.device.get() : tiers_.host.get();
  }
  const Tier* memory(TierId tier) const { return const_cast<Store*>(this)->memory(tier); }
  BlobStore* disk() { return tiers_.disk.get(); }
  const BlobStore* disk() const { return tiers_.disk.get(); }
  Bytes capacity(TierId tier) const;
  Bytes held(TierId tier) const;
  // Bytes in chunks that hold only clean entries: what can be given back at once.
  Bytes clean(TierId tier) const;
  std::string_view name(TierId tier) const;

  Bytes bytes(TierId tier) const { return bytes_[IndexOf(tier)]; }
  Bytes bytes() const { return bytes(top_); }
  // Of these, bytes whose entries also have a copy in a lower tier.
  Bytes clean_bytes(TierId tier) const { return clean_bytes_[IndexOf(tier)]; }
  // Bytes lent to readers from staging buffers, which belong to no tier.
  Bytes staging_bytes() const { return staging_bytes_; }
  void CountStaging(Bytes more, Bytes less) { staging_bytes_ = staging_bytes_ + more - less; }
  Bytes names_bytes() const { return names_bytes_; }
  // Some entry was set with SetOptions::idle_ttl off: the tiers' ttl must skip it.
  bool some_stay() const { return some_stay_; }
  static Bytes NamesBytesOf(const NewEntry& entry);
  // Any thread.
  std::size_t entries() const { return entries_.load(std::memory_order_relaxed); }
  std::size_t entries(TierId tier) const { return entries_in_[IndexOf(tier)]; }
  Tokens tokens() const { return tokens_.load(std::memory_order_relaxed); }
  Tokens tokens_reserved() const { return tokens_reserved_; }
  std::size_t reservations() const { return reservations_; }
  std::size_t zombies() const { return zombies_; }
  // Hits of entries that have been removed since. Any thread.
  std::uint64_t removed_hits() const { return removed_hits_.load(std::memory_order_relaxed); }
  Bytes index_bytes() const;

 private:
  Store(std::unique_ptr<SlotTable> slots, std::unique_ptr<Index> index, TierStack tiers,
        const Settings& settings);
  std::uint64_t NextGeneration();
  void WriteNames(std::uint32_t slot, const NewEntry& entry, TimePoint now);
  void NameParent(std::uint32_t slot, std::string_view parent);
  void ForgetNames(std::uint32_t slot);
  Result<CopyDestination> AllocateIn(TierId tier, Bytes bytes, const BlobFacts& facts);
  void GiveBack(std::uint32_t slot, TierId tier, std::byte* block);
  void SetCopies(std::uint32_t slot, TierMask after);
  void Discard(std::uint32_t slot);  // Frees bytes, names and slot.

  const std::unique_ptr<SlotTable> slots_;
  const std::unique_ptr<Index> index_;
  TierStack tiers_;
  const TierMask mask_;
  const TierId top_;
  const bool keeps_lineage_;
  const std::int64_t unix_offset_;
  std::uint8_t (*const key_group_)(std::string_view key);

  // Written often, so kept on other cache lines than the members every set and get
  // reads.
  alignas(64) std::uint64_t generations_ = 0;
  std::uint64_t places_ = 0;
  std::array<Bytes, kTiers> bytes_{};
  std::array<Bytes, kTiers> clean_bytes_{};
  std::array<std::size_t, kTiers> entries_in_{};  // Live entries with a copy there.
  Bytes names_bytes_ = 0;
  bool some_stay_ = false;
  Bytes below_bytes_ = 0;
  Bytes staging_bytes_ = 0;
  Tokens tokens_reserved_ = 0;
  std::size_t reservations_ = 0;
  std::size_t zombies_ = 0;
  std::atomic<std::size_t> entries_{0};
  std::atomic<Tokens> tokens_{0};
  std::atomic<std::uint64_t> removed_hits_{0};
};

// The clean or the dirty entries of one tier, as rankings read them. `leaves_only`: an
// entry with children in the tier must not be evicted, so Facts::children counts them;
// otherwise it is 0 and every entry counts as a leaf.
class TierView final : public FactReader {
 public:
  TierView(const Store* store, TierId tier, bool clean, bool leaves_only)
      : store_(store), tier_(tier), clean_(clean), leaves_only_(leaves_only) {}

  bool Holds(const Record& record) const {
    return Has(record.copies, tier_) && record.clean_in(tier_) == clean_;
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
  const bool clean_;
  const bool leaves_only_;
};

}  // namespace spillway
