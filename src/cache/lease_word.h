// SPDX-License-Identifier: Apache-2.0
// The lease word: one 64-bit atomic per slot that says whether the slot can be
// read, by how many it is being read, and how often it has been.
//
//   63            24 23  22 21            0
//   |   acquires    | state |    leases    |
//
// Readers only add and subtract; the slot's owner (the strand, or the one reader
// that claimed a zombie) moves the state by compare-and-swap. A reader that meets
// a slot it cannot have takes its addition back, so leases may for an instant be
// too high, never too low.
//
// Invariants
//   1. kPrivate: exactly one owner, which may write the slot's plain fields.
//   2. kVisible with leases > 0: no thread moves the state to kPrivate.
//   3. kZombie: no longer findable; becomes kPrivate exactly once, when its
//      last lease is released, by the thread that releases it.
//   4. Overflow of acquires falls off the top and changes no other bits.
//
// Templated on the atomic so that a test can run every interleaving of it; what
// is protected is so that the test can plant bugs in it and see them found.
#pragma once

#include <atomic>
#include <cstdint>

namespace spillway {

enum class SlotState : std::uint64_t { kUnused = 0, kPrivate = 1, kVisible = 2, kZombie = 3 };

template <typename Atomic>
class BasicLeaseWord {
 public:
  static constexpr std::uint64_t kLease = 1;
  static constexpr int kStateShift = 22;
  static constexpr int kAcquireShift = 24;
  static constexpr std::uint64_t kLeaseMask = (std::uint64_t{1} << kStateShift) - 1;
  static constexpr std::uint64_t kAcquire = std::uint64_t{1} << kAcquireShift;
  // Half of what fits: additions in flight can't reach the state bits.
  static constexpr std::uint64_t kLeasesMax = kLeaseMask / 2;

  static SlotState StateOf(std::uint64_t word) {
    return static_cast<SlotState>((word >> kStateShift) & 3);
  }
  static std::uint64_t LeasesOf(std::uint64_t word) { return word & kLeaseMask; }
  static std::uint64_t AcquiresOf(std::uint64_t word) { return word >> kAcquireShift; }

  // What a reader has to do after a release.
  enum class After : std::uint8_t { kNothing, kReap };
  enum class Got : std::uint8_t { kYes, kNo, kNoAndReap };

  // --- readers, any thread ---

  // Counts as an access.
  Got Acquire() { return Take(kLease + kAcquire); }
  // Does not, and is never in flight on a slot it can't have: Publish takes
  // every lease it finds for an Acquire that came too late.
  Got Pin() {
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    while (StateOf(word) == SlotState::kVisible && LeasesOf(word) < kLeasesMax) {
      if (word_.compare_exchange_weak(word, word + kLease, std::memory_order_acq_rel,
                                      std::memory_order_relaxed)) {
        return Got::kYes;
      }
    }
    return Got::kNo;
  }
  After Release() { return GiveBack(kLease); }
  // Takes an Acquire back as if it had not been.
  After Undo() { return GiveBack(kLease + kAcquire); }
  // An access without a lease.
  void Count() { word_.fetch_add(kAcquire, std::memory_order_relaxed); }

  std::uint64_t Load() const { return word_.load(std::memory_order_acquire); }

  // --- the owner ---

  // kUnused -> kPrivate. Once used a slot never is unused again: the slot table
  // owns all slots that it has not handed out.
  void Reserve() { Shift(SlotState::kUnused, SlotState::kPrivate); }

  // A word that begins anew as zero, of which `in_flight` readers will take back
  // what they added to the old one.
  void Await(std::uint64_t in_flight) {
    word_.fetch_add(in_flight * (kLease + kAcquire), std::memory_order_acq_rel);
  }

  // kPrivate -> kVisible with `accesses` counted so far. Readers in flight on
  // the slot's former tenant will take back what they added; it is added here.
  void Publish(std::uint64_t accesses) {
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    std::uint64_t fresh = 0;
    do {
      fresh = LeasesOf(word) | Bits(SlotState::kVisible) |
              ((accesses + LeasesOf(word)) << kAcquireShift);
    } while (!word_.compare_exchange_weak(word, fresh, std::memory_order_acq_rel,
                                          std::memory_order_relaxed));
  }

  // kVisible and not leased -> kPrivate. False: it is leased, nothing changed.
  // `pins`: leases that the owner knows of and that stay, of moves which do not
  // touch what it is about to change.
  bool TryEvict(std::uint64_t pins = 0) {
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    while (StateOf(word) == SlotState::kVisible && LeasesOf(word) == pins) {
      if (word_.compare_exchange_weak(word, With(word, SlotState::kPrivate),
                                      std::memory_order_acq_rel, std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }

  // kPrivate -> kVisible again after TryEvict, as if nothing had been.
  void Restore() { Shift(SlotState::kPrivate, SlotState::kVisible); }

  // kVisible -> kPrivate (true: the caller owns it now) or, if it is leased,
  // -> kZombie (false: the last reader will).
  bool Kill() {
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    for (;;) {
      const bool alone = LeasesOf(word) == 0;
      if (word_.compare_exchange_weak(word,
                                      With(word, alone ? SlotState::kPrivate : SlotState::kZombie),
                                      std::memory_order_acq_rel, std::memory_order_relaxed)) {
        return alone;
      }
    }
  }

 protected:
  static std::uint64_t Bits(SlotState state) {
    return static_cast<std::uint64_t>(state) << kStateShift;
  }
  static std::uint64_t With(std::uint64_t word, SlotState state) {
    return (word & ~Bits(SlotState::kZombie)) | Bits(state);  // kZombie is all state bits.
  }

  Got Take(std::uint64_t what) {
    const std::uint64_t before = word_.fetch_add(what, std::memory_order_acq_rel);
    if (StateOf(before) == SlotState::kVisible && LeasesOf(before) < kLeasesMax) return Got::kYes;
    return GiveBack(what) == After::kReap ? Got::kNoAndReap : Got::kNo;
  }

  After GiveBack(std::uint64_t what) {
    const std::uint64_t before = word_.fetch_sub(what, std::memory_order_acq_rel);
    if (StateOf(before) != SlotState::kZombie || LeasesOf(before) != 1) return After::kNothing;
    return ClaimZombie() ? After::kReap : After::kNothing;
  }

  // Of all threads that see a zombie without leases exactly one gets it.
  bool ClaimZombie() {
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    while (StateOf(word) == SlotState::kZombie && LeasesOf(word) == 0) {
      if (word_.compare_exchange_weak(word, With(word, SlotState::kPrivate),
                                      std::memory_order_acq_rel, std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }

  void Shift(SlotState from, SlotState to) {
    word_.fetch_add(Bits(to) - Bits(from), std::memory_order_acq_rel);
  }

  Atomic word_{0};
};

using LeaseWord = BasicLeaseWord<std::atomic<std::uint64_t>>;

}  // namespace spillway
