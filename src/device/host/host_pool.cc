// SPDX-License-Identifier: Apache-2.0
#include "device/host/host_pool.h"

#include <pthread.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <new>
#include <system_error>

#include <fmt/format.h>

#include "base/parse.h"
#include "base/quiet_thread.h"
#include "device/host/host_pages.h"
#include "device/host_copy.h"

namespace spillway {
namespace {

constexpr Bytes kChunkMin = kMiB;
constexpr Bytes kChunkMax = 32 * kMiB;
constexpr Bytes kChunksPerPool = 64;
// A caller that needs the chunk being prepared waits for one step of it: half a
// millisecond.
constexpr Bytes kStep = 2 * kMiB;

}  // namespace

Bytes HostPool::ChunkBytesFor(Bytes capacity) {
  return std::clamp(std::bit_floor(capacity / kChunksPerPool), kChunkMin, kChunkMax);
}

Result<std::unique_ptr<HostPool>> HostPool::Open(const HostPoolOptions& options) {
  const Bytes chunk = options.chunk_bytes.value_or(ChunkBytesFor(options.capacity));
  if (!std::has_single_bit(chunk) || chunk < kHostPage) {
    return Error{Code::kInvalidArgument,
                 fmt::format("chunks of {} bytes do not fit: a power of two from {} on is needed",
                             chunk, FormatBytes(kHostPage))};
  }
  // A quarter of all addresses: more than any machine has, and sums cannot overflow.
  constexpr Bytes kCapacityMax = Bytes{1} << 62;
  if (options.capacity == 0 || options.capacity > kCapacityMax) {
    return Error{Code::kInvalidArgument,
                 fmt::format("a host pool cannot have {} bytes", options.capacity)};
  }
  return std::unique_ptr<HostPool>(new HostPool(options, chunk));
}

HostPool::HostPool(const HostPoolOptions& options, Bytes chunk_bytes)
    : chunk_bytes_(chunk_bytes),
      chunks_max_((options.capacity + chunk_bytes - 1) / chunk_bytes),
      eager_(options.eager),
      listener_(options.listener),
      full_message_(fmt::format("the host pool's {} are in use", FormatBytes(total()))) {}

HostPool::~HostPool() {
  assert(ranges_.empty());
  {
    const MutexLock lock(mutex_);
    closing_ = true;
  }
  wanted_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Result<Reading> HostPool::ReadMemory() {
  return Reading{.total = total(), .free = total() - held(), .scope = Scope::kCard};
}

bool HostPool::huge() const { return chunk_bytes_ >= kHostHugePage; }

// --- ranges ---

Result<std::byte*> HostPool::ReserveRange(Bytes bytes) {
  assert(bytes % chunk_bytes_ == 0);
  std::vector<State> chunks(bytes / chunk_bytes_, State::kAway);
  UniqueLock lock(mutex_);
  ranges_.reserve(ranges_.size() + 1);
  Result<std::byte*> base = ReservePages(bytes, std::max(chunk_bytes_, kHostHugePage), huge());
  if (!base) return base;
  ranges_.push_back({*base, std::move(chunks)});
  if (!eager_) return base;
  growing_ = true;
  lock.unlock();
  EnsureThread();
  wanted_.notify_one();
  return base;
}

void HostPool::ReleaseRange(std::byte* base, Bytes bytes) {
  {
    const MutexLock lock(mutex_);
    Range& range = RangeOf(base);
    assert(range.base == base && range.chunks.size() == bytes / chunk_bytes_);
    assert(std::ranges::count(range.chunks, State::kMapped) == 0);
    growing_ = false;
    StopWork();
    DropAllReady(&range);
    if (last_mapped_ >= base && last_mapped_ < base + bytes) last_mapped_ = nullptr;
    std::erase_if(ranges_, [&](const Range& one) { return one.base == base; });
  }
  ReleasePages(base, bytes);
}

HostPool::Range& HostPool::RangeOf(const std::byte* at) {
  const auto found = std::ranges::find_if(ranges_, [&](const Range& range) {
    return at >= range.base && at < range.base + range.chunks.size() * chunk_bytes_;
  });
  assert(found != ranges_.end());
  return *found;
}

HostPool::State& HostPool::StateOf(const std::byte* at) {
  Range& range = RangeOf(at);
  const auto offset = static_cast<Bytes>(at - range.base);
  assert(offset % chunk_bytes_ == 0);
  return range.chunks[offset / chunk_bytes_];
}

// --- chunks, on the strand ---

Status HostPool::MapChunk(std::byte* at) {
  EnsureThread();
  UniqueLock lock(mutex_);
  assert(StateOf(at) != State::kMapped);
  if (mapped_ == chunks_max_) return Error{Code::kNoMemory, full_message_};
  const Result<bool> untold = Acquire(at);
  if (!untold) return untold.error();
  StateOf(at) = State::kMapped;
  ++mapped_;
  last_mapped_ = at;
  growing_ = true;
  lock.unlock();
  wanted_.notify_one();
  if (*untold && listener_ != nullptr) listener_->Added(at, chunk_bytes_);
  return {};
}

Result<bool> HostPool::Acquire(std::byte* at) {
  for (;;) {
    if (StateOf(at) == State::kReady) {
      --ready_;
      return false;
    }
    if (working_ == at && !ending_) {
      stop_ = true;  // The chunk is usable, and the pages not yet populated come when touched.
      return true;
    }
    if (working_ == at) {
      idle_.wait(mutex_);
    } else if (Taken() < chunks_max_) {
      if (Status opened = OpenPages(at, chunk_bytes_); !opened) return opened.error();
      return true;
    } else if (ready_ > 0) {
      DropHighestReady();
    } else {
      growing_ = false;
      StopWork();
    }
  }
}

void HostPool::UnmapChunk(std::byte* at) {
  {
    const MutexLock lock(mutex_);
    assert(StateOf(at) == State::kMapped);
    while (working_ == at) idle_.wait(mutex_);
    if (eager_ && growth_) {
      StateOf(at) = State::kReady;
      ++ready_;
      --mapped_;
      return;
    }
    growing_ = false;
  }
  if (listener_ != nullptr) listener_->Removed(at, chunk_bytes_);
  ReturnPages(at, chunk_bytes_, huge());
  const MutexLock lock(mutex_);
  StateOf(at) = State::kAway;
  if (--mapped_ > 0) return;
  StopWork();
  DropAllReady(nullptr);
}

Status HostPool::CopyIn(std::byte* to, const Source& source) {
  GatherToHost(to, source);
  return {};
}

Status HostPool::CopyOut(const std::byte* from, Bytes bytes, const Sink& sink) {
  ScatterFromHost(from, bytes, sink);
  return {};
}

// --- prepared chunks ---

void HostPool::SetGrowth(bool allowed) {
  const MutexLock lock(mutex_);
  growth_ = allowed;
  if (allowed) {
    growing_ = growing_ || eager_;
    wanted_.notify_one();
    return;
  }
  StopWork();
  DropAllReady(nullptr);
}

void HostPool::StopWork() {
  if (working_ == nullptr) return;
  stop_ = true;
  while (working_ != nullptr) idle_.wait(mutex_);
}

void HostPool::DropReady(std::byte* at) {
  if (listener_ != nullptr) listener_->Removed(at, chunk_bytes_);
  ReturnPages(at, chunk_bytes_, huge());
  StateOf(at) = State::kAway;
  --ready_;
}

void HostPool::DropAllReady(const Range* only) {
  for (const Range& range : ranges_) {
    if (only != nullptr && only != &range) continue;
    for (std::size_t i = 0; i < range.chunks.size() && ready_ > 0; ++i) {
      if (range.chunks[i] == State::kReady) DropReady(range.base + i * chunk_bytes_);
    }
  }
}

// The highest chunk is the last that an arena would use.
void HostPool::DropHighestReady() {
  for (const Range& range : ranges_) {
    for (std::size_t i = range.chunks.size(); i > 0; --i) {
      if (range.chunks[i - 1] == State::kReady)
        return DropReady(range.base + (i - 1) * chunk_bytes_);
    }
  }
}

// --- the pool's thread ---

void HostPool::EnsureThread() {
  if (thread_.joinable()) return;
  try {
    thread_ = QuietThread([this] {
      ::pthread_setname_np(::pthread_self(), "spillway-pool");
      Work();
    });
  } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch)
    // The system refuses a thread: nothing is prepared ahead, and everything else works.
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch)
    // The same.
  }
}

void HostPool::Work() {
  const MutexLock lock(mutex_);
  for (;;) {
    std::byte* next = nullptr;
    while (!closing_ && (next = NextAhead()) == nullptr) wanted_.wait(mutex_);
    if (closing_) return;
    Prepare(next);
  }
}

std::byte* HostPool::NextAhead() {
  if (!growing_ || !growth_ || Taken() >= chunks_max_) return nullptr;
  if (eager_ ? ranges_.empty() : last_mapped_ == nullptr || ready_ >= kAheadMax) return nullptr;
  const Range& range = eager_ ? ranges_.front() : RangeOf(last_mapped_);
  const auto lowest = std::ranges::find(range.chunks, State::kAway);
  if (lowest == range.chunks.end()) return nullptr;
  return range.base + static_cast<Bytes>(lowest - range.chunks.begin()) * chunk_bytes_;
}

void HostPool::Prepare(std::byte* at) {
  // After a refusal the system is not asked again before the pool grows further.
  if (!OpenPages(at, chunk_bytes_)) {
    growing_ = false;
    return;
  }
  working_ = at;
  stop_ = false;
  const bool populated = Populate(at);
  if (!populated) growing_ = false;
  if (StateOf(at) != State::kMapped) {
    const bool ready = populated && !stop_;
    ending_ = true;
    {
      const MutexUnlock unlock(mutex_);
      if (!ready) {
        ReturnPages(at, chunk_bytes_, huge());
      } else if (listener_ != nullptr) {
        listener_->Added(at, chunk_bytes_);
      }
    }
    ending_ = false;
    if (ready) {
      StateOf(at) = State::kReady;
      ++ready_;
    }
  }
  working_ = nullptr;
  idle_.notify_all();
}

// Returns false if the system refused.
bool HostPool::Populate(std::byte* at) {
  for (Bytes done = 0; done < chunk_bytes_ && !stop_; done += kStep) {
    Status got;
    {
      const MutexUnlock unlock(mutex_);
      got = PopulatePages(at + done, std::min(kStep, chunk_bytes_ - done));
    }
    if (!got) return false;
  }
  return true;
}

}  // namespace spillway
