// A card with several simulated processes on it: the real ledger, with death as
// a method. What the kernel does for card_file.h is done here by hand. Joining
// and killing are for one thread; takes and readings may come from several.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "device/cpu/ledger.h"
#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway::testing {

class SimCard {
 public:
  // One process on the card. Leaves in order when destroyed, unless killed.
  class Process final : public LedgerLock, public SlotLife {
   public:
    explicit Process(SimCard* card);
    ~Process() override;

    Ledger& ledger() { return ledger_; }
    // As kill -9: nothing more is written, the slot's owner is gone. Further
    // takes are refused, gifts are ignored.
    void Kill();
    bool alive() const { return alive_; }

    Status Lock() override;
    bool TryLock() override;
    void Unlock() override;
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
  // The sum of all shares as they stand, the dead's included.
  Bytes SharesHeld() const;
  // While set, Lock answers Busy, as if a stopped process held it.
  void SetLockStuck(bool stuck) { lock_stuck_ = stuck; }

 private:
  const Bytes total_;
  LedgerBlock block_{};
  std::array<Process*, kLedgerSlots> owners_{};
  std::mutex mutex_;
  std::atomic<bool> lock_stuck_ = false;
};

}  // namespace spillway::testing
