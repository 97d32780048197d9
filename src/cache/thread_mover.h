// The mover of a real cache: a few threads for each way bytes can go, so that a
// slow disk does not hold up memory, nor writing reading. Of each pair the
// second also does the work for quiet times, and is told to be nice: it gets
// what the first and everybody else leave of a processor.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "base/strand.h"
#include "cache/move.h"

namespace spillway {

class ThreadMover final : public Mover {
 public:
  struct Settings {
    Ways ways;
    // Most bytes a second for background work; empty: no bound.
    std::optional<Bytes> background_rate;
  };
  // `alive` keeps whoever owns the strand: a move's end may be what it waited
  // for. `tick` is called now and then while anything is under way, so that
  // whoever waits for it does not wait too long.
  ThreadMover(const Settings& settings, Strand* strand,
              std::function<std::shared_ptr<void>()> alive, std::function<void()> tick);
  // What is still queued is carried first, called off or not. From a thread of
  // its own: that one ends by itself.
  ~ThreadMover() override;

  bool IsReady(TierId from, TierId to) override;
  void Start(Move* transfer) override;
  void Raise(Move* transfer, Priority priority) override;
  std::size_t Waiting(TierId from, TierId to) const override;

 private:
  // First in, first out, linked through the moves: nothing here needs memory.
  class Queue {
   public:
    bool empty() const { return first_ == nullptr; }
    Move* front() const { return static_cast<Move*>(first_); }
    void Push(Move* move);
    Move* Pop();
    bool Remove(const Move* move);  // False: it was not there.

   private:
    Strand::Task* first_ = nullptr;
    Strand::Task* last_ = nullptr;
  };
  // One way: down in memory, to disk, from disk, up in memory.
  static constexpr std::size_t kLanes = 4;
  // Of each lane the second is nice.
  static constexpr std::size_t kThreads = 3;
  struct Lane {
    std::mutex mutex;
    std::condition_variable wake;
    std::array<Queue, kPriorities> queues;  // Guarded by mutex, as all below.
    bool stop = false;
    std::chrono::steady_clock::time_point background_free{};  // When more of that may be done.
  };
  // What threads share; the last of them frees it.
  struct Shared {
    Settings settings;
    Strand* strand = nullptr;
    std::function<std::shared_ptr<void>()> alive;
    std::function<void()> tick;
    std::unique_ptr<SealCrew> crew;  // If the device's memory is its own.
    std::array<Lane, kLanes> lanes;
    std::array<std::array<std::atomic<std::size_t>, kTiers>, kTiers> waiting{};
    // Moves carried by nice threads. Another posts them: whoever posts may run
    // the strand for others, and must not be slow at that.
    std::mutex done_mutex;
    std::condition_variable done_wake;
    Queue done;              // Guarded by done_mutex.
    bool done_stop = false;  // Guarded by done_mutex.
  };
  static std::size_t LaneOf(TierId from, TierId to);
  static void Work(std::shared_ptr<Shared> shared, std::size_t lane, bool nice);
  static Move* Next(Shared& shared, Lane& lane, std::unique_lock<std::mutex>& lock, bool nice);
  static void Deliver(Shared& shared, Move* transfer);
  static void DeliverAll(std::shared_ptr<Shared> shared);

  const std::shared_ptr<Shared> shared_;
  // The strand's; started when needed.
  std::array<std::array<std::thread, kThreads>, kLanes> threads_;
  std::thread deliverer_;
};

}  // namespace spillway
