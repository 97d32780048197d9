// The virtual card's ledger: how many bytes of the card each process holds.
// It is the pure half: a block of memory, somebody who locks it and somebody
// who knows which processes live. device/cpu/card.h puts the block into a file
// and locks with the kernel's help; device/testing/sim_card.h holds several
// simulated processes on one block and kills them at will.
//
// 1. The shares of live processes never add up to more than the total.
// 2. A share is written by its owner alone, and once the owner is dead by
//    whoever holds the lock.
// 3. A share rises only under the lock; it falls without.
// 4. Every change is one store. A process may die between any two: the ledger
//    is right again as soon as the dead are reaped, and nobody waits for them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

inline constexpr int kLedgerSlots = 64;

// As it stands in the file: fixed layout, native byte order, never leaves the
// machine. Any change of it raises the version.
struct LedgerSlot {
  std::atomic<std::uint64_t> bytes;
  std::atomic<std::uint64_t> pid;  // For people only; containers may disagree about it.
};
struct LedgerBlock {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t slot_count;
  std::atomic<std::uint64_t> total;
  std::uint64_t unused;
  LedgerSlot slots[kLedgerSlots];
};
inline constexpr std::uint64_t kLedgerMagic = 0x4452'4143'4c4c'5053;  // "SPLLCARD"
inline constexpr std::uint32_t kLedgerVersion = 1;
static_assert(sizeof(LedgerBlock) == 32 + 16 * kLedgerSlots);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// Keeps processes, and threads of one process, apart. A lock dies with its owner.
class LedgerLock {
 public:
  virtual ~LedgerLock() = default;
  // Bounded: an owner that is stopped and not dead makes this an error.
  virtual Status Lock() = 0;
  virtual bool TryLock() = 0;
  virtual void Unlock() = 0;
};

// Whose slot is whose. All calls come under the lock.
class SlotLife {
 public:
  virtual ~SlotLife() = default;
  // Makes the slot ours until we release it or die. False: its owner lives.
  virtual bool Claim(int slot) = 0;
  virtual void Release(int slot) = 0;
  // Whether another live process owns it; unspecified for our own.
  virtual bool Alive(int slot) = 0;
};

// One process's view of a ledger. Calls may come from any thread after Join.
class Ledger {
 public:
  // All but the name are borrowed. `card` is what messages call it: card "demo".
  Ledger(std::string card, LedgerBlock* block, LedgerLock* lock, SlotLife* life)
      : card_(std::move(card)), block_(block), lock_(lock), life_(life) {}
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // An empty ledger in `block`.
  static void Format(LedgerBlock* block, Bytes total);
  // Empty, or why `block` is no ledger of ours.
  static std::string WhyUnreadable(const LedgerBlock& block);

  // Takes a slot. A ledger on which nobody lives begins anew, with `total` or
  // else `total_if_new`; on one that is in use a different `total` is an error.
  Status Join(std::optional<Bytes> total, Bytes total_if_new, std::uint64_t pid);
  // Gives all back. Harmless when repeated or without Join.
  void Leave();
  // Forgets the slot without touching it: it belongs to our parent (fork).
  void Abandon() { slot_ = -1; }

  // All or nothing: NoMemory when even the shares of the dead do not suffice.
  Status Take(Bytes bytes);
  void Give(Bytes bytes);

  // Returns the shares of the dead, unless somebody holds the lock just now.
  void TryReap();

  Bytes total() const { return block_->total.load(std::memory_order_relaxed); }
  Bytes held() const;
  // total - all shares. A few dozen loads, no lock.
  Bytes Free() const;

 private:
  void ReapLocked();
  int CountLiveLocked();
  Status ClaimSlotLocked(std::uint64_t pid);
  bool AnyForeignShare() const;

  const std::string card_;
  LedgerBlock* const block_;
  LedgerLock* const lock_;
  SlotLife* const life_;
  int slot_ = -1;  // Constant from Join to Leave.
};

}  // namespace spillway
