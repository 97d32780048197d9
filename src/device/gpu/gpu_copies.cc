// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/gpu_copies.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "device/gpu/gpu_copy_job.h"
#include "device/gpu/gpu_hash.h"
#include "device/gpu/kernels_ptx.h"

namespace spillway {

namespace {

using Steady = std::chrono::steady_clock;  // real world: a device keeps no other time

constexpr Bytes kBounce = 2 * kMiB;

// Joins pieces that are adjacent both in the source and in the destination.
void Coalesce(std::vector<GpuCopies::Piece>* pieces) {
  std::size_t last = 0;
  for (std::size_t i = 0; i < pieces->size(); ++i) {
    const GpuCopies::Piece piece = (*pieces)[i];
    if (piece.bytes == 0) continue;
    if (last > 0) {
      GpuCopies::Piece& before = (*pieces)[last - 1];
      if (before.to + before.bytes == piece.to && before.from + before.bytes == piece.from) {
        before.bytes += piece.bytes;
        continue;
      }
    }
    (*pieces)[last++] = piece;
  }
  pieces->resize(last);
}

}  // namespace

GpuCopies::GpuCopies(std::shared_ptr<const GpuDriver> driver, int device, GpuContext context,
                     HostPins* pins, const Settings& settings)
    : driver_(std::move(driver)),
      device_(device),
      context_(context),
      pins_(pins),
      settings_(settings) {
  for (Lanes& lanes : lanes_) lanes.free.reserve(kLanesMax);  // Give never allocates.
  const GpuScope scope(*driver_, device_, context_);
  if (scope.code() != 0) return;
  int greatest = 0;
  if (driver_->stream_priorities(&priority_, &greatest) != 0) priority_ = 0;
  LoadKernels();
}

// Without the kernels, pieces are copied one by one and the host computes the checksums.
void GpuCopies::LoadKernels() {
  if (driver_->kind != GpuKind::kCuda || driver_->module_load == nullptr ||
      driver_->module_function == nullptr || driver_->launch == nullptr) {
    return;
  }
  const int loaded = driver_->module_load(&module_, kKernelsPtx);
  const auto load = [&](void** function, const char* name, std::string_view otherwise) {
    const int code = loaded == 0 ? driver_->module_function(function, module_, name) : loaded;
    if (code == 0) return;
    *function = nullptr;
    LogInfo("{}: {}", driver_->Failed(fmt::format("loading {}", name), code).message, otherwise);
  };
  load(&gather_, "spillway_gather", "scattered pieces are copied one by one");
  load(&hash_, "spillway_hash", "the host computes checksums");
}

GpuCopies::~GpuCopies() {
  if (in_doubt()) return;
  const GpuScope scope(*driver_, device_, context_);
  if (scope.code() != 0) return;
  for (Lanes& lanes : lanes_) {
    for (const std::unique_ptr<Lane>& lane : lanes.free) Destroy(lane.get());
  }
  if (module_ != nullptr) Insist([&] { return driver_->module_unload(module_); });
}

std::string GpuCopies::lost() const {
  const MutexLock lock(lost_mutex_);
  return lost_;
}

void GpuCopies::Lose(const std::string& why) {
  const MutexLock lock(lost_mutex_);
  if (is_lost()) return;
  LogError("the device is no longer used: {}", why);
  lost_ = why;
  is_lost_.store(true, std::memory_order_release);
}

void GpuCopies::Doubt(const std::string& why) {
  in_doubt_.store(true, std::memory_order_release);
  pins_->Forsake();
  Lose(why);
}

Status GpuCopies::Check(std::string_view call, int code) {
  if (code == 0) return {};
  Error error = driver_->Failed(call, code);
  if (GpuDriver::IsFatal(code)) Lose(error.message);
  return error;
}

// --- lanes ---

Result<std::unique_ptr<GpuCopies::Lane>> GpuCopies::MakeLane() {
  std::unique_ptr<Lane> lane(new (std::nothrow) Lane);
  if (lane == nullptr) return Error{Code::kNoMemory, "no memory"};
  int code = driver_->stream_create(&lane->stream, kGpuNonBlocking, priority_);
  if (code == 0) code = driver_->stream_create(&lane->kernels, kGpuNonBlocking, priority_);
  const auto event = [&](GpuEvent* into) {
    if (code == 0) code = driver_->event_create(into, kGpuNoTiming);
  };
  event(&lane->order);
  for (GpuEvent& done : lane->done) event(&done);
  for (Lane::Stage& stage : lane->stages) {
    event(&stage.gathered);
    event(&stage.free);
  }
  if (code == 0) return lane;
  Destroy(lane.get());
  return Check("making a stream", code).error();
}

void GpuCopies::Destroy(Lane* lane) {
  const auto event = [&](GpuEvent one) {
    if (one != nullptr) Insist([&] { return driver_->event_destroy(one); });
  };
  const auto stream = [&](GpuStream one) {
    if (one != nullptr) Insist([&] { return driver_->stream_destroy(one); });
  };
  const auto host = [&](void* block) {
    if (block != nullptr) Insist([&] { return driver_->host_free(block); });
  };
  stream(lane->stream);
  stream(lane->kernels);
  event(lane->order);
  for (GpuEvent done : lane->done) event(done);
  for (std::byte* block : lane->bounce) host(block);
  host(lane->hash_keys);
  for (const Lane::Stage& stage : lane->stages) {
    event(stage.gathered);
    event(stage.free);
    host(stage.table);
    if (stage.memory == 0) continue;
    if (Insist([&] { return driver_->memory_free(stage.memory); }) == 0) {
      overhead_ -= settings_.stage;
    }
  }
}

Result<std::unique_ptr<GpuCopies::Lane>> GpuCopies::Take(Way way) {
  UniqueLock lock(mutex_);
  Lanes& lanes = lanes_[static_cast<std::size_t>(way)];
  const auto possible = [&] { return !lanes.free.empty() || lanes.out < kLanesMax || is_lost(); };
  // A lane in use is returned within a bounded time of its own.
  if (!returned_.wait_for(mutex_, 2 * settings_.within, possible)) {  // real world: the device's
    return Error{Code::kDeadline, "the device's copies did not end in time"};
  }
  if (is_lost()) return Error{Code::kUnavailable, lost()};
  ++lanes.out;
  if (!lanes.free.empty()) {
    std::unique_ptr<Lane> lane = std::move(lanes.free.back());
    lanes.free.pop_back();
    return lane;
  }
  lock.unlock();
  Result<std::unique_ptr<Lane>> lane = MakeLane();
  if (!lane) {
    lock.lock();
    --lanes.out;
    returned_.notify_one();
  }
  return lane;
}

void GpuCopies::Give(Way way, std::unique_ptr<Lane> lane, bool clean) {
  const MutexLock lock(mutex_);
  Lanes& lanes = lanes_[static_cast<std::size_t>(way)];
  --lanes.out;
  // Otherwise the device may still be using its buffers, so the lane is never reused.
  if (clean) lanes.free.push_back(std::move(lane));
  returned_.notify_all();
}

bool GpuCopies::Stage(Lane* lane) {
  if (lane->staged) return true;
  for (Lane::Stage& stage : lane->stages) {
    if (stage.memory == 0) {
      if (driver_->memory_alloc(&stage.memory, settings_.stage) != 0) {
        stage.memory = 0;
        return false;
      }
      overhead_ += settings_.stage;
    }
    if (stage.table == nullptr) {
      void* table = nullptr;
      if (driver_->host_alloc(&table, kTableMax * sizeof(Piece), kGpuPortable) != 0) return false;
      stage.table = static_cast<Piece*>(table);
    }
  }
  lane->staged = true;
  return true;
}

Bytes GpuCopies::BounceBytes() const { return std::min(kBounce, settings_.segment); }

bool GpuCopies::Bounce(Lane* lane) {
  for (std::byte*& block : lane->bounce) {
    if (block != nullptr) continue;
    void* memory = nullptr;
    if (driver_->host_alloc(&memory, BounceBytes(), kGpuPortable) != 0) return false;
    block = static_cast<std::byte*>(memory);
  }
  return true;
}

bool GpuCopies::HashRoom(Lane* lane) {
  if (!makes_hashes()) return false;
  if (lane->hashes != nullptr) return true;
  constexpr std::size_t kKeyBytes = 512;
  void* memory = nullptr;
  const std::size_t bytes = kKeyBytes + kHashesMax * sizeof(Hash128);
  if (driver_->host_alloc(&memory, bytes, kGpuPortable) != 0) return false;
  const auto keys = GpuHashKeys();
  static_assert(sizeof(keys) <= kKeyBytes);
  std::memcpy(memory, keys.data(), sizeof(keys));
  lane->hash_keys = static_cast<std::uint64_t*>(memory);
  lane->hashes = reinterpret_cast<Hash128*>(static_cast<std::byte*>(memory) + kKeyBytes);
  return true;
}

// Polls, since the driver's own wait has no time limit.
Status GpuCopies::Await(GpuEvent event) {
  const auto start = Steady::now();  // real world: as above
  for (;;) {
    const int code = driver_->event_query(event);
    if (code == 0) return {};
    if (code != kGpuNotReady) return Check("a copy", code);
    const auto waited = Steady::now() - start;  // real world: as above
    if (waited > settings_.within) {
      Doubt(fmt::format("a copy was not done after {:.1f} s",
                        std::chrono::duration<double>(waited).count()));
      return Error{Code::kUnavailable, lost()};
    }
    if (waited < std::chrono::microseconds(30)) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(20));  // real world: as above
    }
  }
}

bool GpuCopies::Drain(Lane* lane) {
  for (GpuStream stream : {lane->kernels, lane->stream}) {
    const int code = driver_->event_record(lane->order, stream);
    const Status over = code == 0 ? Await(lane->order) : Check("cuEventRecord", code);
    if (over) continue;
    Doubt(over.error().message);
    return false;
  }
  return true;
}

// --- copies ---

Status GpuCopies::Run(Way way, std::vector<Piece> pieces, const DeviceOrder& order,
                      const std::function<bool(Bytes)>& arrived, std::vector<Hash128>* hashes) {
  Coalesce(&pieces);
  if (pieces.empty()) {
    if (hashes != nullptr) hashes->clear();
    if (arrived) arrived(0);
    return {};
  }
  const GpuScope scope(*driver_, device_, context_);
  if (Status ok = Check("making the device current", scope.code()); !ok) return ok;
  Result<std::unique_ptr<Lane>> lane = Take(way);
  if (!lane) return lane.error();
  for (Lane::Stage& stage : (*lane)->stages) stage.used = false;
  Job job(this, way, lane->get(), arrived);
  Status done;
  try {
    if (hashes != nullptr) {
      hashes->resize(pieces.front().bytes / kHashPieceBytes);
      job.Hash(hashes);
    }
    done = job.After(order);
    if (done) done = job.Run(pieces);
  } catch (const std::bad_alloc&) {
    done = Error{Code::kNoMemory, "no memory"};
  }
  const bool clean = done || Drain(lane->get());
  Give(way, std::move(*lane), clean);
  // A result that the device reported while it was being lost is not trusted.
  if (done && is_lost()) return Error{Code::kUnavailable, lost()};
  return done;
}

Status GpuCopies::Fill(GpuAddress at, Bytes bytes) {
  const GpuScope scope(*driver_, device_, context_);
  if (Status ok = Check("making the device current", scope.code()); !ok) return ok;
  Result<std::unique_ptr<Lane>> lane = Take(Way::kOnDevice);
  if (!lane) return lane.error();
  Status done = Check("filling", driver_->fill(at, 0, bytes, (*lane)->stream));
  if (done) done = Check("filling", driver_->event_record((*lane)->order, (*lane)->stream));
  if (done) done = Await((*lane)->order);
  const bool clean = done || Drain(lane->get());
  Give(Way::kOnDevice, std::move(*lane), clean);
  return done;
}

}  // namespace spillway
