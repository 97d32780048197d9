#include "cache/thread_mover.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <new>

namespace spillway {

namespace {
using Steady = std::chrono::steady_clock;  // real world: threads pace themselves by it

// A tenth of what others get where they want all: less would let whoever waits
// for one of these moves wait too long.
constexpr int kNice = 10;
constexpr auto kTick = std::chrono::milliseconds(50);

void BeNice() {
  // A hint; without the right to it the thread is as others.
  static_cast<void>(setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNice));
}
}  // namespace

ThreadMover::ThreadMover(const Settings& settings, Strand* strand,
                         std::function<std::shared_ptr<void>()> alive, std::function<void()> tick)
    : shared_(std::make_shared<Shared>()) {
  shared_->settings = settings;
  shared_->strand = strand;
  shared_->alive = std::move(alive);
  shared_->tick = std::move(tick);
  const Tier* const device = settings.ways.device;
  if (device == nullptr || device->host_readable()) return;
  shared_->crew =
      std::make_unique<SealCrew>(SealCrew::ThreadsFor(std::thread::hardware_concurrency()));
  shared_->settings.ways.crew = shared_->crew.get();
}

ThreadMover::~ThreadMover() {
  for (Lane& lane : shared_->lanes) {
    const std::lock_guard lock(lane.mutex);
    lane.stop = true;
    lane.wake.notify_all();
  }
  const auto end = [](std::thread& thread) {
    if (!thread.joinable()) return;
    thread.get_id() == std::this_thread::get_id() ? thread.detach() : thread.join();
  };
  for (std::vector<std::thread>& threads : threads_) {
    for (std::thread& thread : threads) end(thread);
  }
  {
    const std::lock_guard lock(shared_->done_mutex);
    shared_->done_stop = true;
    shared_->done_wake.notify_one();
  }
  end(deliverer_);
}

std::size_t ThreadMover::LaneOf(const Move& transfer) {
  if (transfer.from == TierId::kDisk) return 2;
  if (transfer.to == TierId::kDisk) return 1;
  return transfer.to > transfer.from ? 0 : 3;
}

void ThreadMover::EnsureThreads(std::size_t lane) {
  if (!threads_.at(lane).empty()) return;
  if (!deliverer_.joinable()) deliverer_ = std::thread(&ThreadMover::DeliverAll, shared_);
  // Copies of a device wait for the device: two at a time keep the link busy.
  const bool link = shared_->crew != nullptr && (lane == 0 || lane == 3);
  for (const bool nice : {false, true}) {
    threads_.at(lane).emplace_back(&ThreadMover::Work, shared_, lane, nice);
  }
  if (link) threads_.at(lane).emplace_back(&ThreadMover::Work, shared_, lane, false);
}

void ThreadMover::Start(Move* transfer) {
  const std::size_t at = LaneOf(*transfer);
  EnsureThreads(at);
  Lane& lane = shared_->lanes.at(at);
  const std::lock_guard lock(lane.mutex);
  lane.queues.at(static_cast<std::size_t>(transfer->priority)).push_back(transfer);
  shared_->waiting[IndexOf(transfer->from)][IndexOf(transfer->to)].fetch_add(1);
  // The nice one might take the only wake-up and have no right to the work.
  lane.wake.notify_all();
}

void ThreadMover::Raise(Move* transfer, Priority priority) {
  Lane& lane = shared_->lanes.at(LaneOf(*transfer));
  const std::lock_guard lock(lane.mutex);
  std::deque<Move*>& queue = lane.queues.at(static_cast<std::size_t>(transfer->priority));
  const auto found = std::find(queue.begin(), queue.end(), transfer);
  if (found == queue.end()) return;  // It is being carried.
  lane.queues.at(static_cast<std::size_t>(priority)).push_back(transfer);
  queue.erase(std::find(queue.begin(), queue.end(), transfer));
  transfer->priority = priority;
  lane.wake.notify_all();
}

std::size_t ThreadMover::Waiting(TierId from, TierId to) const {
  return shared_->waiting[IndexOf(from)][IndexOf(to)].load(std::memory_order_relaxed);
}

// Null: the lane is closing and empty.
Move* ThreadMover::Next(Shared& shared, Lane& lane, std::unique_lock<std::mutex>& lock, bool nice) {
  const std::optional<Bytes>& rate = shared.settings.background_rate;
  for (;;) {
    const auto queue = std::find_if(lane.queues.begin(), lane.queues.end(),
                                    [](const auto& moves) { return !moves.empty(); });
    if (queue == lane.queues.end()) {
      if (lane.stop) return nullptr;
      lane.wake.wait(lock);
      continue;
    }
    const bool background = IsBackground(queue->front()->priority) && !lane.stop;
    if (background && !nice) {
      lane.wake.wait(lock);
      continue;
    }
    if (background && rate) {
      const Steady::time_point now = Steady::now();  // real world: the rate is one of real seconds
      if (now < lane.background_free) {
        lane.wake.wait_until(lock, lane.background_free);
        continue;
      }
      const double seconds = static_cast<double>(queue->front()->bytes) /
                             static_cast<double>(std::max<Bytes>(1, *rate));
      lane.background_free = now + std::chrono::duration_cast<Steady::duration>(
                                       std::chrono::duration<double>(seconds));
    }
    Move* const first = queue->front();
    queue->pop_front();
    return first;
  }
}

void ThreadMover::Work(std::shared_ptr<Shared> shared, std::size_t at, bool nice) {
  if (nice) BeNice();
  Lane& lane = shared->lanes.at(at);
  for (;;) {
    Move* transfer = nullptr;
    {
      std::unique_lock lock(lane.mutex);
      transfer = Next(*shared, lane, lock, nice);
    }
    if (transfer == nullptr) return;
    try {
      Carry(shared->settings.ways, transfer);
    } catch (const std::bad_alloc&) {
      transfer->status = Error{Code::kNoMemory, "no memory"};
    }
    if (!nice) {
      Deliver(*shared, transfer);
      continue;
    }
    if (!HandToDeliverer(*shared, transfer)) Deliver(*shared, transfer);
  }
}

// False: there was no memory for that.
bool ThreadMover::HandToDeliverer(Shared& shared, Move* transfer) {
  const std::lock_guard lock(shared.done_mutex);
  try {
    shared.done.push_back(transfer);
  } catch (const std::bad_alloc&) {
    return false;
  }
  shared.done_wake.notify_one();
  return true;
}

void ThreadMover::Deliver(Shared& shared, Move* transfer) {
  shared.waiting[IndexOf(transfer->from)][IndexOf(transfer->to)].fetch_sub(1);
  // Its end may be the end of the cache: we keep that until we are out of it.
  const std::shared_ptr<void> alive = shared.alive();
  shared.strand->Post(transfer);
}

void ThreadMover::DeliverAll(std::shared_ptr<Shared> shared) {
  const auto anything = [&] {
    for (const auto& from : shared->waiting) {
      for (const std::atomic<std::size_t>& count : from) {
        if (count.load(std::memory_order_relaxed) > 0) return true;
      }
    }
    return false;
  };
  for (;;) {
    Move* transfer = nullptr;
    {
      std::unique_lock lock(shared->done_mutex);
      const auto due = [&] { return !shared->done.empty() || shared->done_stop; };
      // real world: a disk that hangs gives no sign
      if (!shared->done_wake.wait_for(lock, kTick, due)) {
        lock.unlock();
        if (!anything()) continue;
        const std::shared_ptr<void> alive = shared->alive();
        if (alive != nullptr) shared->tick();
        continue;
      }
      if (shared->done.empty()) return;
      transfer = shared->done.front();
      shared->done.pop_front();
    }
    Deliver(*shared, transfer);
  }
}

}  // namespace spillway
