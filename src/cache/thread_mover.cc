#include "cache/thread_mover.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <new>
#include <system_error>

#include "base/quiet_thread.h"

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

void ThreadMover::Queue::Push(Move* move) {
  move->next = nullptr;
  (first_ == nullptr ? first_ : last_->next) = move;
  last_ = move;
}

Move* ThreadMover::Queue::Pop() {
  Move* const first = front();
  first_ = first->next;
  return first;
}

bool ThreadMover::Queue::Remove(const Move* move) {
  Strand::Task* before = nullptr;
  for (Strand::Task* at = first_; at != nullptr; before = at, at = at->next) {
    if (at != move) continue;
    (before == nullptr ? first_ : before->next) = at->next;
    if (last_ == at) last_ = before;
    return true;
  }
  return false;
}

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
  for (auto& threads : threads_) {
    for (std::thread& thread : threads) end(thread);
  }
  {
    const std::lock_guard lock(shared_->done_mutex);
    shared_->done_stop = true;
    shared_->done_wake.notify_one();
  }
  end(deliverer_);
}

std::size_t ThreadMover::LaneOf(TierId from, TierId to) {
  if (from == TierId::kDisk) return 2;
  if (to == TierId::kDisk) return 1;
  return to > from ? 0 : 3;
}

bool ThreadMover::IsReady(TierId from, TierId to) {
  const std::size_t lane = LaneOf(from, to);
  // Copies of a device wait for the device: two at a time keep the link busy.
  const bool link = shared_->crew != nullptr && (lane == 0 || lane == 3);
  try {
    if (!deliverer_.joinable()) deliverer_ = QuietThread(&ThreadMover::DeliverAll, shared_);
    for (std::size_t i = 0; i < (link ? kThreads : 2); ++i) {
      std::thread& thread = threads_.at(lane).at(i);
      if (!thread.joinable()) thread = QuietThread(&ThreadMover::Work, shared_, lane, i == 1);
    }
    return true;
  } catch (const std::system_error&) {
    return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void ThreadMover::Start(Move* transfer) {
  Lane& lane = shared_->lanes.at(LaneOf(transfer->from, transfer->to));
  const std::lock_guard lock(lane.mutex);
  lane.queues.at(static_cast<std::size_t>(transfer->priority)).Push(transfer);
  shared_->waiting[IndexOf(transfer->from)][IndexOf(transfer->to)].fetch_add(1);
  // The nice one might take the only wake-up and have no right to the work.
  lane.wake.notify_all();
}

void ThreadMover::Raise(Move* transfer, Priority priority) {
  Lane& lane = shared_->lanes.at(LaneOf(transfer->from, transfer->to));
  const std::lock_guard lock(lane.mutex);
  const auto before = static_cast<std::size_t>(transfer->priority);
  if (!lane.queues.at(before).Remove(transfer)) return;  // It is being carried.
  lane.queues.at(static_cast<std::size_t>(priority)).Push(transfer);
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
    return queue->Pop();
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
    const std::lock_guard lock(shared->done_mutex);
    shared->done.Push(transfer);
    shared->done_wake.notify_one();
  }
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
        try {
          if (alive != nullptr) shared->tick();
        } catch (const std::bad_alloc&) {
          continue;  // With the next one.
        }
        continue;
      }
      if (shared->done.empty()) return;
      transfer = shared->done.Pop();
    }
    Deliver(*shared, transfer);
  }
}

}  // namespace spillway
