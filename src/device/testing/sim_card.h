// SPDX-License-Identifier: Apache-2.0
// A card with several simulated processes on it: the real ledger, with death as a
// method. This class does by hand what the kernel does for card_file.h. Joining
// and killing need a single thread; takes and readings may come from several.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "base/mutex.h"
#include "device/cpu/ledger.h"
#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway::testing {

class SimCard {
 public:
  // One process on the card. Returns its share when destroyed, unless killed.
  class Process final : public LedgerLock, public SlotLife {
   public:
    explicit Process(SimCard* card);
    ~Process() override;

    Ledger& ledger() { return ledger_; }
    // Like kill -9: nothing more is written, and the slot has no owner. Later
    // takes are refused, later gives ignored.
    void Kill();
    bool alive() const { return alive_; }

    // Lock leaves the card's mutex locked for Unlock.
    Status Lock() override SPILLWAY_NO_THREAD_SAFETY_ANALYSIS;
    bool TryLock() override SPILLWAY_NO_THREAD_SAFETY_ANALYSIS;
    void Unlock() override SPILLWAY_NO_THREAD_SAFETY_ANALYSIS;
    bool Claim(int slot) override;
    void Release(int slot) override;
    bool Alive(int slot) override;

   private:
    SimCard* const card_;
    Ledger ledger_;
    bool alive_ = true;
  };

  explicit SimCard(Bytes total);

  // The card must outlive its processes. At most kLedgerSlots live at a time.
  std::unique_ptr<Process> Join();

  Bytes total() const { return total_; }
  // The sum of all shares as they are, including those of dead processes.
  Bytes SharesHeld() const;
  // While set, Lock returns Busy, as if a stopped process held the lock.
  void SetLockStuck(bool stuck) { lock_stuck_ = stuck; }

 private:
  const Bytes total_;
  LedgerBlock block_{};
  std::array<Process*, kLedgerSlots> owners_{};
  Mutex mutex_;
  std::atomic<bool> lock_stuck_ = false;
};

}  // namespace spillway::testing
