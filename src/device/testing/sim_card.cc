// SPDX-License-Identifier: Apache-2.0
#include "device/testing/sim_card.h"

#include <cassert>
#include <utility>

namespace spillway::testing {

SimCard::SimCard(Bytes total) : total_(total) { Ledger::Format(&block_, total); }

std::unique_ptr<SimCard::Process> SimCard::Join() {
  auto process = std::make_unique<Process>(this);
  const Status joined = process->ledger().Join(total_, total_, 1);
  assert(joined.has_value());
  (void)joined;
  return process;
}

Bytes SimCard::SharesHeld() const {
  Bytes sum = 0;
  for (const LedgerSlot& slot : block_.slots) sum += slot.bytes.load(std::memory_order_relaxed);
  return sum;
}

SimCard::Process::Process(SimCard* card)
    : card_(card), ledger_("the simulated card", &card->block_, this, this) {}

SimCard::Process::~Process() {
  if (alive_) ledger_.Leave();
}

void SimCard::Process::Kill() {
  if (!alive_) return;
  alive_ = false;
  for (Process*& owner : card_->owners_) {
    if (owner == this) owner = nullptr;
  }
  ledger_.Abandon();
}

Status SimCard::Process::Lock() {
  if (card_->lock_stuck_) return Error{Code::kBusy, "the card is locked by a stopped process"};
  card_->mutex_.lock();
  return {};
}

bool SimCard::Process::TryLock() { return !card_->lock_stuck_ && card_->mutex_.try_lock(); }

void SimCard::Process::Unlock() { card_->mutex_.unlock(); }

bool SimCard::Process::Claim(int slot) {
  Process*& owner = card_->owners_[static_cast<std::size_t>(slot)];
  if (owner != nullptr) return false;
  owner = this;
  return true;
}

void SimCard::Process::Release(int slot) {
  card_->owners_[static_cast<std::size_t>(slot)] = nullptr;
}

bool SimCard::Process::Alive(int slot) {
  return card_->owners_[static_cast<std::size_t>(slot)] != nullptr;
}

}  // namespace spillway::testing
