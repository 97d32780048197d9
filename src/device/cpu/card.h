// SPDX-License-Identifier: Apache-2.0
// A virtual card: an amount of RAM that processes take and return as if it were a
// GPU's memory. A card with a name is shared by all processes on this machine that
// open it (one file in the run directory, see card_file.h). A card without a name
// belongs to this object alone. A card only counts; CpuDevice has the memory itself.
//
// After a fork the parent keeps its card and the child has none: in the child
// Take is refused and Give is ignored.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/cpu/card_file.h"
#include "device/cpu/ledger.h"
#include "spillway/clock.h"
#include "spillway/pressure.h"
#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

struct CardOptions {
  // 1 to 64 of a-z A-Z 0-9 . _ - (not first: .). Empty: a private card.
  std::string name = {};
  // Empty: the total that the card already has, or for a new card
  // DefaultCardBytes().
  std::optional<Bytes> total = {};
  // Readings look for dead processes at most this often. Take always does so
  // before it refuses.
  Duration reap_period = std::chrono::milliseconds(50);
  // Longest wait for a process that holds the ledger's lock.
  Duration lock_wait = std::chrono::seconds(1);
  std::shared_ptr<Clock> clock = nullptr;  // Null: the system clock.
};

// An eighth of the memory available on this machine, or in this container.
Bytes DefaultCardBytes();

// Safe from any thread.
class Card {
 public:
  static Result<std::unique_ptr<Card>> Open(const CardOptions& options);
  // Returns the bytes that are still held.
  ~Card();
  Card(const Card&) = delete;
  Card& operator=(const Card&) = delete;

  const std::string& name() const { return name_; }
  bool shared() const { return file_ != nullptr; }
  Bytes total() const { return ledger_->total(); }
  // The bytes that this process holds.
  Bytes held() const { return ledger_->held(); }

  // Takes all or nothing. NoMemory: the card has less free.
  Status Take(Bytes bytes) { return ledger_->Take(bytes); }
  void Give(Bytes bytes) { ledger_->Give(bytes); }
  // Each process that holds bytes, by its pid. No lock.
  std::vector<Ledger::Share> Shares() const { return ledger_->Shares(); }
  // Takes microseconds, and no lock except to return the shares of dead processes.
  Reading Read();

 private:
  class PrivateWorld;
  struct ForkGuard;

  explicit Card(const CardOptions& options);

  const std::string name_;
  const Duration reap_period_;
  const std::shared_ptr<Clock> clock_;
  std::unique_ptr<CardFile> file_;         // Set for shared cards.
  std::unique_ptr<PrivateWorld> private_;  // Set for private cards.
  std::unique_ptr<Ledger> ledger_;
  std::atomic<TimePoint> reaped_at_;
};

}  // namespace spillway
