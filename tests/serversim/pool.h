// SPDX-License-Identifier: Apache-2.0
// The Pool is the strand, the executor and the transfer queue of a simulated cache: what is
// handed to them waits here, and the seed picks what runs next. A task whose poster
// blocks runs at once, ahead of what waits.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/executor.h"
#include "base/strand.h"
#include "cache/core.h"
#include "cache/transfer.h"
#include "sim/rng.h"
#include "sim/verdict.h"
#include "spillway/testing.h"
#include "tiersim/watched.h"

namespace spillway::serversim {

class Pool {
 public:
  // What goes wrong with moves, in percent, and how slow a slow one is.
  struct Faults {
    std::uint32_t slow_percent = 0;
    std::uint32_t fail_percent = 0;
    std::uint32_t tear_percent = 0;
    Duration slow_max{};
  };

  Pool(sim::Rng* rng, testing::ManualClock* clock, sim::Verdict* verdict)
      : rng_(*rng), clock_(*clock), verdict_(*verdict) {}

  std::unique_ptr<Strand> MakeStrand();
  std::unique_ptr<Executor> MakeExecutor();
  std::unique_ptr<TransferQueue> MakeTransferQueue();
  // What moves are carried between; tiers that damage what arrives, if any.
  void Serve(const TransferPaths& ways, std::array<tiersim::WatchedTier*, 2> memory);

  // Called behind each event of the strand, off the strand.
  std::function<void()> after_event;
  // A move to or from disk has failed, or an arriving copy was damaged.
  std::function<void()> disk_failed;

  Faults faults;
  Duration disk_delay{};  // Of each move from or to disk, from now on.
  // A call that blocks waits for all transfers in flight, too: closing, the flush at stop.
  bool is_prompt = false;

  bool on_strand() const { return on_strand_; }
  bool empty() const { return pending_.empty() && transfers_.empty(); }
  std::size_t pending() const { return pending_.size(); }
  std::size_t moves() const { return transfers_.size(); }
  // As of the daemon's monitors: a tier's next pass begins when its last one has ended.
  void Push(TierId tier, std::unique_ptr<Core::PassSteps> pass);
  void DropPasses();

  // What can run now, and one of it.
  std::size_t ready() const;
  // What has been ready since before `then`: that which was first.
  std::optional<std::size_t> OverdueSince(TimePoint then) const;
  void RunReady(std::size_t at);
  // Runs until nothing is left; slow moves get their time if `clock` may move. False:
  // it does not end.
  bool Drain(bool may_move_clock);

 private:
  class SimStrand;
  class SimExecutor;
  class SimTransferQueue;
  struct Pending {
    Strand::Task* task = nullptr;
    bool on_strand = true;
    std::unique_ptr<Core::PassSteps> pass{};
    TierId tier{};  // Of the pass.
    TimePoint since{};
  };
  struct PendingTransfer {
    Transfer* move = nullptr;
    TimePoint ready;
  };

  void Posted(Strand::Task* task);
  void RunOnStrand(Strand::Task* task);
  void RunPending(std::size_t at);
  void StartMove(Transfer* transfer);
  Transfer* TakeMove(std::size_t at);
  void RunTransferAt(std::size_t at);
  void RunBatchWith(Transfer* first);
  void Carried(Transfer* transfer);

  sim::Rng& rng_;
  testing::ManualClock& clock_;
  sim::Verdict& verdict_;
  TransferPaths ways_;
  std::array<tiersim::WatchedTier*, 2> memory_{};
  std::vector<Pending> pending_;
  std::vector<PendingTransfer> transfers_;
  std::array<std::size_t, kTiers * kTiers> waiting_{};
  bool on_strand_ = false;
  bool draining_ = false;
};

}  // namespace spillway::serversim
