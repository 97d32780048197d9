// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/ledger.h"

#include <algorithm>
#include <cassert>

#include <fmt/format.h>

#include "base/mutant.h"
#include "base/parse.h"

namespace spillway {
namespace {

// Holds the lock for a scope; status() says whether it could be taken. (To clang it is
// held in any case.)
class SPILLWAY_SCOPED_CAPABILITY Locked {
 public:
  explicit Locked(LedgerLock* lock) SPILLWAY_ACQUIRE(lock) : lock_(lock), status_(lock->Lock()) {}
  ~Locked() SPILLWAY_RELEASE() {
    if (status_) lock_->Unlock();
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
  const Status& status() const { return status_; }

 private:
  LedgerLock* const lock_;
  const Status status_;
};

}  // namespace

void Ledger::Format(LedgerBlock* block, Bytes total) {
  block->magic = kLedgerMagic;
  block->version = kLedgerVersion;
  block->slot_count = kLedgerSlots;
  block->total.store(total, std::memory_order_relaxed);
  block->unused = 0;
  for (LedgerSlot& slot : block->slots) {
    slot.bytes.store(0, std::memory_order_relaxed);
    slot.pid.store(0, std::memory_order_relaxed);
  }
}

std::string Ledger::WhyUnreadable(const LedgerBlock& block) {
  if (block.magic != kLedgerMagic) return "it is not a card";
  if (block.version != kLedgerVersion) {
    return fmt::format("it has version {}, this program reads {}", block.version, kLedgerVersion);
  }
  if (block.slot_count != kLedgerSlots) {
    return fmt::format("it has {} slots instead of {}", block.slot_count, kLedgerSlots);
  }
  return {};
}

Status Ledger::Join(std::optional<Bytes> total, Bytes total_if_new, std::uint64_t pid) {
  assert(slot_ < 0);
  const Locked locked(lock_);
  if (!locked.status()) return locked.status();
  if (const int live = CountLiveLocked(); live == 0) {
    Format(block_, total.value_or(total_if_new));
  } else if (total && *total != this->total()) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{} has {} ({} bytes), not the {} ({} bytes) asked for: ask "
                             "for the same or for none, or end the {} process(es) using it",
                             card_, FormatBytes(this->total()), this->total(), FormatBytes(*total),
                             *total, live)};
  }
  return ClaimSlotLocked(pid);
}

void Ledger::Leave() {
  if (slot_ < 0) return;
  LedgerSlot& mine = block_->slots[slot_];
  mine.pid.store(0, std::memory_order_relaxed);
  mine.bytes.store(0, std::memory_order_release);
  life_->Release(slot_);
  slot_ = -1;
}

Status Ledger::Take(Bytes bytes) {
  if (slot_ < 0) {
    return Error{Code::kClosed, fmt::format("{} is not open in this process", card_)};
  }
  const Locked locked(lock_);
  if (!locked.status()) return locked.status();
  if (bytes > Free()) ReapLocked();
  if (const Bytes free = Free(); bytes > free && !MutantOn(Mutant::kLedgerOverCommit)) {
    return Error{Code::kNoMemory,
                 fmt::format("{} is full: {} wanted, {} of {} free", card_, FormatBytes(bytes),
                             FormatBytes(free), FormatBytes(total()))};
  }
  block_->slots[slot_].bytes.fetch_add(bytes, std::memory_order_acq_rel);
  return {};
}

void Ledger::Give(Bytes bytes) {
  if (slot_ < 0) return;
  const Bytes before = block_->slots[slot_].bytes.fetch_sub(bytes, std::memory_order_acq_rel);
  assert(before >= bytes);
  (void)before;
}

void Ledger::TryReap() {
  if (slot_ < 0 || !AnyForeignShare() || !lock_->TryLock()) return;
  ReapLocked();
  lock_->Unlock();
}

Bytes Ledger::held() const {
  return slot_ < 0 ? 0 : block_->slots[slot_].bytes.load(std::memory_order_acquire);
}

Bytes Ledger::Free() const {
  Bytes sum = 0;
  for (const LedgerSlot& slot : block_->slots) sum += slot.bytes.load(std::memory_order_acquire);
  // Shares change while they are added up, so the sum may be off for a moment.
  // Under the lock shares can only fall, so the result is never too large.
  const Bytes all = total();
  return all - std::min(all, sum);
}

std::vector<Ledger::Share> Ledger::Shares() const {
  std::vector<Share> shares;
  for (const LedgerSlot& slot : block_->slots) {
    const Bytes bytes = slot.bytes.load(std::memory_order_acquire);
    if (bytes != 0) shares.push_back({slot.pid.load(std::memory_order_relaxed), bytes});
  }
  return shares;
}

void Ledger::ReapLocked() {
  if (MutantOn(Mutant::kDeadShareKept)) return;
  for (int i = 0; i < kLedgerSlots; ++i) {
    LedgerSlot& slot = block_->slots[i];
    if (i == slot_ || slot.bytes.load(std::memory_order_acquire) == 0 || life_->Alive(i)) continue;
    slot.pid.store(0, std::memory_order_relaxed);
    slot.bytes.store(0, std::memory_order_release);
  }
}

int Ledger::CountLiveLocked() {
  int live = 0;
  for (int i = 0; i < kLedgerSlots; ++i) live += life_->Alive(i) ? 1 : 0;
  return live;
}

Status Ledger::ClaimSlotLocked(std::uint64_t pid) {
  ReapLocked();
  for (int i = 0; i < kLedgerSlots; ++i) {
    LedgerSlot& slot = block_->slots[i];
    // Only the mutant leaves bytes in a slot without an owner; they stay there.
    if (slot.bytes.load(std::memory_order_acquire) != 0 || !life_->Claim(i)) continue;
    slot.pid.store(pid, std::memory_order_relaxed);
    slot_ = i;
    return {};
  }
  return Error{Code::kBusy, fmt::format("{} is used by {} processes already, the most it "
                                        "can take",
                                        card_, kLedgerSlots)};
}

bool Ledger::AnyForeignShare() const {
  for (int i = 0; i < kLedgerSlots; ++i) {
    if (i != slot_ && block_->slots[i].bytes.load(std::memory_order_relaxed) != 0) return true;
  }
  return false;
}

}  // namespace spillway
