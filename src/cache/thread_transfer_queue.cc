// SPDX-License-Identifier: Apache-2.0
#include "cache/thread_transfer_queue.h"

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

// About a tenth of the processor time that others get when all want it: with less, a
// get that waits for one of these transfers would wait too long.
constexpr int kNice = 10;
constexpr auto kTick = std::chrono::milliseconds(50);
// A batch of small values ends here or at kBatchMax: enough that the disk is busy with
// bytes and not with calls, but not for long.
constexpr Bytes kBatchBytesMax = 2 * kMiB;

void BeNice() {
  // A hint; without the right to it the thread runs as others do.
  static_cast<void>(setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNice));
}
}  // namespace

void ThreadTransferQueue::Queue::Push(Transfer* transfer) {
  transfer->next = nullptr;
  (first_ == nullptr ? first_ : last_->next) = transfer;
  last_ = transfer;
}

Transfer* ThreadTransferQueue::Queue::Pop() {
  Transfer* const first = front();
  first_ = first->next;
  return first;
}

bool ThreadTransferQueue::Queue::Remove(const Transfer* transfer) {
  Strand::Task* before = nullptr;
  for (Strand::Task* at = first_; at != nullptr; before = at, at = at->next) {
    if (at != transfer) continue;
    (before == nullptr ? first_ : before->next) = at->next;
    if (last_ == at) last_ = before;
    return true;
  }
  return false;
}

ThreadTransferQueue::ThreadTransferQueue(const Settings& settings, Strand* strand,
                                         std::function<std::shared_ptr<void>()> alive,
                                         std::function<void()> tick)
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

ThreadTransferQueue::~ThreadTransferQueue() {
  for (Lane& lane : shared_->lanes) {
    const MutexLock lock(lane.mutex);
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
    const MutexLock lock(shared_->done_mutex);
    shared_->done_stop = true;
    shared_->done_wake.notify_one();
  }
  end(deliverer_);
}

// 0: down in memory, 1: to disk, 2: from disk, 3: up in memory.
std::size_t ThreadTransferQueue::LaneOf(TierId from, TierId to) {
  if (from == TierId::kDisk) return 2;
  if (to == TierId::kDisk) return 1;
  return to > from ? 0 : 3;
}

bool ThreadTransferQueue::IsReady(TierId from, TierId to) {
  const std::size_t lane = LaneOf(from, to);
  // Copies of a device mostly wait for the device: two at a time keep the link busy.
  const bool link = shared_->crew != nullptr && (lane == 0 || lane == 3);
  try {
    if (!deliverer_.joinable()) deliverer_ = QuietThread(&ThreadTransferQueue::DeliverAll, shared_);
    for (std::size_t i = 0; i < (link ? kThreads : 2); ++i) {
      std::thread& thread = threads_.at(lane).at(i);
      if (!thread.joinable())
        thread = QuietThread(&ThreadTransferQueue::Work, shared_, lane, i == 1);
    }
    return true;
  } catch (const std::system_error&) {
    return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void ThreadTransferQueue::Start(Transfer* transfer) {
  Lane& lane = shared_->lanes.at(LaneOf(transfer->from, transfer->to));
  const MutexLock lock(lane.mutex);
  lane.queues.at(static_cast<std::size_t>(transfer->priority)).Push(transfer);
  shared_->waiting[IndexOf(transfer->from)][IndexOf(transfer->to)].fetch_add(1);
  // Notify all: the nice thread might take the only wake-up and not be allowed to do
  // the work.
  lane.wake.notify_all();
}

void ThreadTransferQueue::Raise(Transfer* transfer, Priority priority) {
  Lane& lane = shared_->lanes.at(LaneOf(transfer->from, transfer->to));
  const MutexLock lock(lane.mutex);
  const auto before = static_cast<std::size_t>(transfer->priority);
  if (!lane.queues.at(before).Remove(transfer)) return;  // It is being copied.
  lane.queues.at(static_cast<std::size_t>(priority)).Push(transfer);
  transfer->priority = priority;
  lane.wake.notify_all();
}

std::size_t ThreadTransferQueue::Waiting(TierId from, TierId to) const {
  return shared_->waiting[IndexOf(from)][IndexOf(to)].load(std::memory_order_relaxed);
}

// Null: the lane is closed and empty.
ThreadTransferQueue::Queue* ThreadTransferQueue::NextQueue(Shared& shared, Lane& lane, bool nice) {
  const std::optional<Bytes>& rate = shared.settings.background_rate;
  for (;;) {
    const auto queue = std::find_if(lane.queues.begin(), lane.queues.end(),
                                    [](const auto& transfers) { return !transfers.empty(); });
    if (queue == lane.queues.end()) {
      if (lane.stop) return nullptr;
      lane.wake.wait(lane.mutex);
      continue;
    }
    const bool background = IsBackground(queue->front()->priority) && !lane.stop;
    if (background && !nice) {
      lane.wake.wait(lane.mutex);
      continue;
    }
    if (background && rate) {
      const Steady::time_point now = Steady::now();  // real world: the rate is one of real seconds
      if (now < lane.background_free) {
        lane.wake.wait_until(lane.mutex, lane.background_free);
        continue;
      }
      lane.background_free = now;
    }
    return &*queue;
  }
}

std::size_t ThreadTransferQueue::Next(Shared& shared, Lane& lane, bool nice, Batch* batch) {
  const MutexLock lock(lane.mutex);
  Queue* const queue = NextQueue(shared, lane, nice);
  if (queue == nullptr) return 0;
  const std::optional<Bytes>& rate = shared.settings.background_rate;
  std::size_t count = 0;
  Bytes bytes = 0;
  const auto another = [&] {
    return IsBatched(*batch->front()) && count < batch->size() && !queue->empty() &&
           IsBatched(*queue->front()) && bytes + queue->front()->bytes <= kBatchBytesMax;
  };
  do {
    Transfer* const transfer = queue->Pop();
    (*batch)[count++] = transfer;
    bytes += transfer->bytes;
    if (rate && IsBackground(transfer->priority)) {
      const double seconds =
          static_cast<double>(transfer->bytes) / static_cast<double>(std::max<Bytes>(1, *rate));
      lane.background_free +=
          std::chrono::duration_cast<Steady::duration>(std::chrono::duration<double>(seconds));
    }
  } while (another());
  return count;
}

void ThreadTransferQueue::RunAll(const TransferPaths& ways, std::span<Transfer* const> transfers) {
  try {
    transfers.size() == 1 ? RunTransfer(ways, transfers.front())
                          : RunTransferBatch(ways, transfers);
  } catch (const std::bad_alloc&) {
    for (Transfer* const transfer : transfers)
      transfer->status = Error{Code::kNoMemory, "no memory"};
  }
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): the thread keeps it alive.
void ThreadTransferQueue::Work(std::shared_ptr<Shared> shared, std::size_t at, bool nice) {
  if (nice) BeNice();
  Lane& lane = shared->lanes.at(at);
  Batch batch;
  while (const std::size_t count = Next(*shared, lane, nice, &batch)) {
    const std::span<Transfer* const> transfers(batch.data(), count);
    RunAll(shared->settings.ways, transfers);
    if (!nice) {
      for (Transfer* const transfer : transfers) Deliver(*shared, transfer);
      continue;
    }
    const MutexLock lock(shared->done_mutex);
    for (Transfer* const transfer : transfers) shared->done.Push(transfer);
    shared->done_wake.notify_one();
  }
}

void ThreadTransferQueue::Deliver(Shared& shared, Transfer* transfer) {
  shared.waiting[IndexOf(transfer->from)][IndexOf(transfer->to)].fetch_sub(1);
  // The end of the transfer may be the end of the cache: keep that alive until this
  // thread has left it.
  const std::shared_ptr<void> alive = shared.alive();
  shared.strand->Post(transfer);
}

void ThreadTransferQueue::DeliverAll(std::shared_ptr<Shared> shared) {
  const auto anything = [&] {
    for (const auto& from : shared->waiting) {
      for (const std::atomic<std::size_t>& count : from) {
        if (count.load(std::memory_order_relaxed) > 0) return true;
      }
    }
    return false;
  };
  for (;;) {
    Transfer* transfer = nullptr;
    {
      UniqueLock lock(shared->done_mutex);
      const auto due = [&]() SPILLWAY_REQUIRES(shared->done_mutex) {
        return !shared->done.empty() || shared->done_stop;
      };
      // real world: a disk that hangs gives no signal
      if (!shared->done_wake.wait_for(shared->done_mutex, kTick, due)) {
        lock.unlock();
        if (!anything()) continue;
        const std::shared_ptr<void> alive = shared->alive();
        try {
          if (alive != nullptr) shared->tick();
        } catch (const std::bad_alloc&) {
          continue;  // With the next tick.
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
