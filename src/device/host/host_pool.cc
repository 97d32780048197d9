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
// Who wants the chunk that is being prepared waits for one step of it: half a
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
  // A quarter of all addresses is more than any machine has, and cannot overflow.
  constexpr Bytes kCapacityMax = Bytes{1} << 62;
  if (options.capacity == 0 || options.capacity > kCapacityMax) {
    return Error{Code::kInvalidArgument,
                 fmt::format("a host pool of {} bytes cannot be", options.capacity)};
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
    const std::lock_guard lock(mutex_);
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
  std::unique_lock lock(mutex_);
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
    Lock lock(mutex_);
    Range& range = RangeOf(base);
    assert(range.base == base && range.chunks.size() == bytes / chunk_bytes_);
    assert(std::ranges::count(range.chunks, State::kMapped) == 0);
    growing_ = false;
    StopWork(lock);
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
  Lock lock(mutex_);
  assert(StateOf(at) != State::kMapped);
  if (mapped_ == chunks_max_) return Error{Code::kNoMemory, full_message_};
  const Result<bool> untold = Acquire(lock, at);
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

Result<bool> HostPool::Acquire(Lock& lock, std::byte* at) {
  for (;;) {
    if (StateOf(at) == State::kReady) {
      --ready_;
      return false;
    }
    if (working_ == at && !ending_) {
      stop_ = true;  // It is open, and what is not populated comes when touched.
      return true;
    }
    if (working_ == at) {
      idle_.wait(lock);
    } else if (Taken() < chunks_max_) {
      if (Status opened = OpenPages(at, chunk_bytes_); !opened) return opened.error();
      return true;
    } else if (ready_ > 0) {
      DropHighestReady();
    } else {
      growing_ = false;
      StopWork(lock);
    }
  }
}

void HostPool::UnmapChunk(std::byte* at) {
  {
    Lock lock(mutex_);
    assert(StateOf(at) == State::kMapped);
    idle_.wait(lock, [&] { return working_ != at; });
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
  Lock lock(mutex_);
  StateOf(at) = State::kAway;
  if (--mapped_ > 0) return;
  StopWork(lock);
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

// --- what is prepared ---

void HostPool::SetGrowth(bool allowed) {
  Lock lock(mutex_);
  growth_ = allowed;
  if (allowed) {
    growing_ = growing_ || eager_;
    wanted_.notify_one();
    return;
  }
  StopWork(lock);
  DropAllReady(nullptr);
}

void HostPool::StopWork(Lock& lock) {
  if (working_ == nullptr) return;
  stop_ = true;
  idle_.wait(lock, [&] { return working_ == nullptr; });
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

// The highest is the last that an arena would take.
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
    // No thread to be had now: nothing is prepared, and all else works.
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch)
    // Likewise.
  }
}

void HostPool::Work() {
  Lock lock(mutex_);
  for (;;) {
    std::byte* next = nullptr;
    wanted_.wait(lock, [&] { return closing_ || (next = NextAhead()) != nullptr; });
    if (closing_) return;
    Prepare(lock, next);
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

void HostPool::Prepare(Lock& lock, std::byte* at) {
  // A system that refuses is not asked again before the pool grows further.
  if (!OpenPages(at, chunk_bytes_)) {
    growing_ = false;
    return;
  }
  working_ = at;
  stop_ = false;
  const bool populated = Populate(lock, at);
  if (!populated) growing_ = false;
  if (StateOf(at) != State::kMapped) {
    const bool ready = populated && !stop_;
    ending_ = true;
    lock.unlock();
    if (!ready) {
      ReturnPages(at, chunk_bytes_, huge());
    } else if (listener_ != nullptr) {
      listener_->Added(at, chunk_bytes_);
    }
    lock.lock();
    ending_ = false;
    if (ready) {
      StateOf(at) = State::kReady;
      ++ready_;
    }
  }
  working_ = nullptr;
  idle_.notify_all();
}

// False: the system refused.
bool HostPool::Populate(Lock& lock, std::byte* at) {
  for (Bytes done = 0; done < chunk_bytes_ && !stop_; done += kStep) {
    lock.unlock();
    const Status got = PopulatePages(at + done, std::min(kStep, chunk_bytes_ - done));
    lock.lock();
    if (!got) return false;
  }
  return true;
}

}  // namespace spillway
