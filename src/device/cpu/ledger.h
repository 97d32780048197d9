// SPDX-License-Identifier: Apache-2.0
// The ledger of a virtual card: how many bytes of the card each process holds.
// This is the pure half: a block of memory, an interface to lock it, and an
// interface that knows which processes live. device/cpu/card.h keeps the block
// in a file and uses file locks; device/testing/sim_card.h puts several
// simulated processes on one block and kills them at will.
//
// 1. The shares of live processes never add up to more than the total.
// 2. A share is written only by its owner, and after the owner's death only by
//    a holder of the lock.
// 3. A share rises only under the lock; it may fall without.
// 4. Each change is one store. A process may die between any two: the ledger is
//    correct again once the shares of the dead are returned, and no process
//    ever waits for a dead one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_annotations.h"
#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

inline constexpr int kLedgerSlots = 64;

// The layout in the file: fixed, native byte order, never leaves the machine. A
// change of the layout raises the version.
struct LedgerSlot {
  std::atomic<std::uint64_t> bytes;
  std::atomic<std::uint64_t> pid;  // For people only; containers may number processes differently.
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

// Mutual exclusion of processes, and of threads of one process. A lock is
// released when its owner dies.
class SPILLWAY_CAPABILITY("ledger lock") LedgerLock {
 public:
  virtual ~LedgerLock() = default;
  // The wait is bounded: if the owner is stopped but not dead, this is an error.
  virtual Status Lock() = 0;
  virtual bool TryLock() SPILLWAY_TRY_ACQUIRE(true) = 0;
  virtual void Unlock() SPILLWAY_RELEASE() = 0;
};

// Which slots have a live owner. All calls are made under the lock.
class SlotLife {
 public:
  virtual ~SlotLife() = default;
  // Makes the slot ours until Release or the end of the process. Returns false
  // if its owner lives.
  virtual bool Claim(int slot) = 0;
  virtual void Release(int slot) = 0;
  // Whether another live process owns it; unspecified for our own.
  virtual bool Alive(int slot) = 0;
};

// One process's view of a ledger. Calls may come from any thread after Join.
class Ledger {
 public:
  // All arguments but the name are borrowed. `card` is the card's name in
  // messages: card "demo".
  Ledger(std::string card, LedgerBlock* block, LedgerLock* lock, SlotLife* life)
      : card_(std::move(card)), block_(block), lock_(lock), life_(life) {}
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // Writes an empty ledger to `block`.
  static void Format(LedgerBlock* block, Bytes total);
  // Empty, or the reason why `block` is not a usable ledger.
  static std::string WhyUnreadable(const LedgerBlock& block);

  // Takes a slot. A ledger without live processes is reset, with `total` or otherwise
  // `total_if_new`; if the ledger is in use a different `total` is an error.
  Status Join(std::optional<Bytes> total, Bytes total_if_new, std::uint64_t pid);
  // Returns all bytes and the slot. May be repeated, or called without Join.
  void Leave();
  // Forgets the slot without changing it: after a fork it belongs to the parent.
  void Abandon() { slot_ = -1; }

  // Takes all or nothing. NoMemory: not enough even after the shares of dead
  // processes are returned.
  Status Take(Bytes bytes);
  void Give(Bytes bytes);

  // Returns the shares of dead processes, unless the lock is held at the moment.
  void TryReap();

  Bytes total() const { return block_->total.load(std::memory_order_relaxed); }
  Bytes held() const;
  // The total less all shares. A few dozen loads, no lock.
  Bytes Free() const;

  struct Share {
    std::uint64_t pid = 0;
    Bytes bytes = 0;
  };
  // Each process that holds bytes. A few dozen loads, no lock: a share may be that of a process
  // that has just died.
  std::vector<Share> Shares() const;

 private:
  // Sets the shares of dead processes to zero.
  void ReapLocked() SPILLWAY_REQUIRES(lock_);
  int CountLiveLocked() SPILLWAY_REQUIRES(lock_);
  Status ClaimSlotLocked(std::uint64_t pid) SPILLWAY_REQUIRES(lock_);
  // Whether any other slot has bytes; if not, there is nothing to reap.
  bool AnyForeignShare() const;

  const std::string card_;
  LedgerBlock* const block_;
  LedgerLock* const lock_;
  SlotLife* const life_;
  int slot_ = -1;  // Constant from Join to Leave.
};

}  // namespace spillway
