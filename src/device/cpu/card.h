// A virtual card: an amount of RAM that processes take and give back as if it
// were a GPU's memory. A card with a name is shared by all processes of this
// machine that open it (one file in the run directory, see card_file.h); one
// without is this object's own. It counts; the memory itself is CpuDevice's.
//
// A process that forks keeps its card; the child has none: what it takes is
// refused, what it gives back is ignored.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

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
  // Empty: what the card has, or for a new one DefaultCardBytes().
  std::optional<Bytes> total = {};
  // Readings look for dead neighbours at most this often; Take always does
  // before it refuses.
  Duration reap_period = std::chrono::milliseconds(50);
  // Longest wait for a process that holds the ledger's lock.
  Duration lock_wait = std::chrono::seconds(1);
  std::shared_ptr<Clock> clock = nullptr;  // Empty: the machine's.
};

// An eighth of the memory available on this machine, or in this container.
Bytes DefaultCardBytes();

// Safe from any thread.
class Card {
 public:
  static Result<std::unique_ptr<Card>> Open(const CardOptions& options);
  // What is still held goes back.
  ~Card();
  Card(const Card&) = delete;
  Card& operator=(const Card&) = delete;

  const std::string& name() const { return name_; }
  bool shared() const { return file_ != nullptr; }
  Bytes total() const { return ledger_->total(); }
  // What this process holds.
  Bytes held() const { return ledger_->held(); }

  // All or nothing: NoMemory when the card has less.
  Status Take(Bytes bytes) { return ledger_->Take(bytes); }
  void Give(Bytes bytes) { ledger_->Give(bytes); }
  // Microseconds; takes no lock but to reap.
  Reading Read();

 private:
  class PrivateWorld;
  struct ForkGuard;

  explicit Card(const CardOptions& options);

  const std::string name_;
  const Duration reap_period_;
  const std::shared_ptr<Clock> clock_;
  std::unique_ptr<CardFile> file_;         // Shared cards.
  std::unique_ptr<PrivateWorld> private_;  // Private ones.
  std::unique_ptr<Ledger> ledger_;
  std::atomic<TimePoint> reaped_at_;
};

}  // namespace spillway
