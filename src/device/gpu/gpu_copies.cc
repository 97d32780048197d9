#include "device/gpu/gpu_copies.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "device/gpu/gather_ptx.h"

namespace spillway {

namespace {

using Steady = std::chrono::steady_clock;  // real world: a device keeps no other time

constexpr Bytes kBounce = 2 * kMiB;
constexpr unsigned kGatherBlocks = 32;
constexpr unsigned kGatherThreads = 512;

// Pieces that lie side by side in both places are one.
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

void* HostAddress(std::uint64_t at) {
  return reinterpret_cast<void*>(at);  // NOLINT(performance-no-int-to-ptr): as drivers do.
}

}  // namespace

GpuCopies::GpuCopies(std::shared_ptr<const GpuDriver> driver, int device, GpuContext context,
                     HostPins* pins, const Settings& settings)
    : driver_(std::move(driver)),
      device_(device),
      context_(context),
      pins_(pins),
      settings_(settings) {
  for (Lanes& lanes : lanes_) lanes.free.reserve(kLanesMax);  // Giving back allocates nothing.
  const GpuScope scope(*driver_, device_, context_);
  if (scope.code() != 0) return;
  int greatest = 0;
  if (driver_->stream_priorities(&priority_, &greatest) != 0) priority_ = 0;
  LoadKernel();
}

// A kernel that does not load leaves us with plain copies.
void GpuCopies::LoadKernel() {
  if (driver_->kind != GpuKind::kCuda || driver_->module_load == nullptr ||
      driver_->module_function == nullptr || driver_->launch == nullptr) {
    return;
  }
  int code = driver_->module_load(&module_, kGatherPtx);
  if (code == 0) code = driver_->module_function(&gather_, module_, "spillway_gather");
  if (code == 0) return;
  gather_ = nullptr;
  spdlog::info("{}: scattered pieces are copied one by one",
               driver_->Failed("loading the gather kernel", code).message);
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
  const std::lock_guard lock(lost_mutex_);
  return lost_;
}

void GpuCopies::Lose(const std::string& why) {
  const std::lock_guard lock(lost_mutex_);
  if (is_lost()) return;
  spdlog::error("the device is not used any more: {}", why);
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
  std::unique_lock lock(mutex_);
  Lanes& lanes = lanes_[static_cast<std::size_t>(way)];
  const auto possible = [&] { return !lanes.free.empty() || lanes.out < kLanesMax || is_lost(); };
  // Whoever has one gives it back within its own bound.
  if (!returned_.wait_for(lock, 2 * settings_.within, possible)) {  // real world: the device's
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
  const std::lock_guard lock(mutex_);
  Lanes& lanes = lanes_[static_cast<std::size_t>(way)];
  --lanes.out;
  // Else the device may still be at work on its buffers: they are nobody's now.
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

// Looks again and again: a driver's own wait knows no bound.
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

// --- one copy ---

// Steps are put on the stream up to kInFlight ahead, each with its event; they
// end in the order in which they began.
class GpuCopies::Job {
 public:
  Job(GpuCopies* copies, Way way, Lane* lane, const std::function<bool(Bytes)>& arrived)
      : copies_(copies), driver_(*copies->driver_), way_(way), lane_(lane), arrived_(arrived) {}

  Status After(const DeviceOrder& order) {
    if (order.after == DeviceOrder::After::kNone) return {};
    void* event = order.handle;
    if (order.after == DeviceOrder::After::kStream) {
      event = lane_->order;
      if (Status ok = Do("cuEventRecord", driver_.event_record(event, order.handle)); !ok)
        return ok;
    }
    if (Status ok = Do("cuStreamWaitEvent", driver_.stream_wait(lane_->stream, event, 0)); !ok) {
      return ok;
    }
    return Do("cuStreamWaitEvent", driver_.stream_wait(lane_->kernels, event, 0));
  }

  Status Run(std::span<const Piece> pieces) {
    while (!pieces.empty()) {
      const std::size_t small = SmallOnes(pieces);
      if (small >= copies_->settings_.gather_from && copies_->gathers() && copies_->Stage(lane_)) {
        if (Status ok = Gather(pieces.first(small)); !ok) return ok;
        pieces = pieces.subspan(small);
        continue;
      }
      const std::size_t batch = BatchOf(pieces);
      Status ok = batch > 1 ? Batch(pieces.first(batch)) : Whole(pieces.front());
      if (!ok) return ok;
      pieces = pieces.subspan(std::max<std::size_t>(batch, 1));
    }
    return Finish(0);
  }

 private:
  struct Step {
    Bytes bytes = 0;
    std::byte* to = nullptr;  // From a bounce buffer to here, when it is done.
  };

  Status Do(std::string_view call, int code) { return copies_->Check(call, code); }
  std::uint64_t HostSide(const Piece& piece) const {
    return way_ == Way::kToHost ? piece.to : piece.from;
  }

  // How many of the first are small and, on the host's side, in one row that the
  // driver knows: those one copy can carry, gathered.
  std::size_t SmallOnes(std::span<const Piece> pieces) const {
    const Settings& settings = copies_->settings_;
    Bytes sum = 0;
    Bytes reach = 0;
    if (way_ != Way::kOnDevice) {
      reach = copies_->pins_->Reach(HostAddress(HostSide(pieces.front())));
      if (reach == 0) return 0;
    }
    std::size_t count = 0;
    for (const Piece& piece : pieces) {
      if (piece.bytes >= settings.gather_below || count == kTableMax) break;
      if (way_ == Way::kOnDevice) {
        ++count;
        continue;
      }
      if (HostSide(piece) != HostSide(pieces.front()) + sum) break;
      if (sum + piece.bytes > std::min(settings.stage, reach)) break;
      sum += piece.bytes;
      ++count;
    }
    return count;
  }

  // How many small ones the driver may take in one call.
  std::size_t BatchOf(std::span<const Piece> pieces) const {
    if (!driver_.has_batch() || way_ == Way::kOnDevice) return 0;
    std::size_t count = 0;
    for (const Piece& piece : pieces) {
      if (count == 1024 || piece.bytes >= copies_->settings_.segment) break;
      if (copies_->pins_->Reach(HostAddress(HostSide(piece))) < piece.bytes) break;
      ++count;
    }
    return count;
  }

  Status Batch(std::span<const Piece> pieces) {
    std::vector<GpuAddress> to;
    std::vector<GpuAddress> from;
    std::vector<std::size_t> bytes;
    Bytes sum = 0;
    for (const Piece& piece : pieces) {
      to.push_back(piece.to);
      from.push_back(piece.from);
      bytes.push_back(piece.bytes);
      sum += piece.bytes;
    }
    GpuCopyKind kind;
    std::size_t first = 0;
    std::size_t failed = 0;
    const int code = driver_.copy_batch_v2 != nullptr
                         ? driver_.copy_batch_v2(to.data(), from.data(), bytes.data(), bytes.size(),
                                                 &kind, &first, 1, lane_->stream)
                         : driver_.copy_batch_v1(to.data(), from.data(), bytes.data(), bytes.size(),
                                                 &kind, &first, 1, &failed, lane_->stream);
    if (Status ok = Do("cuMemcpyBatchAsync", code); !ok) return ok;
    return Began({sum, nullptr});
  }

  Status Launch(GpuStream stream, Piece* table, std::size_t count) {
    auto at = reinterpret_cast<std::uint64_t>(table);
    auto pieces = static_cast<std::uint32_t>(count);
    void* arguments[] = {&at, &pieces};
    const unsigned blocks = std::min<unsigned>(kGatherBlocks, pieces);
    return Do("cuLaunchKernel", driver_.launch(copies_->gather_, blocks, 1, 1, kGatherThreads, 1, 1,
                                               0, stream, arguments, nullptr));
  }

  Status Gather(std::span<const Piece> pieces) {
    Lane::Stage& stage = lane_->stages[next_stage_++ % kStages];
    if (stage.used) {
      if (Status ok = copies_->Await(stage.free); !ok) return ok;
    }
    Bytes sum = 0;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      Piece& entry = stage.table[i];
      entry = pieces[i];
      if (way_ == Way::kToHost) entry.to = stage.memory + sum;
      if (way_ == Way::kToDevice) entry.from = stage.memory + sum;
      sum += pieces[i].bytes;
    }
    stage.used = true;
    Status ok;
    if (way_ == Way::kOnDevice) {
      ok = Launch(lane_->stream, stage.table, pieces.size());
      if (ok) ok = Do("cuEventRecord", driver_.event_record(stage.free, lane_->stream));
      return ok ? Began({sum, nullptr}) : ok;
    }
    if (way_ == Way::kToHost) {
      ok = Launch(lane_->kernels, stage.table, pieces.size());
      if (ok) ok = Do("cuEventRecord", driver_.event_record(stage.gathered, lane_->kernels));
      if (ok) ok = Do("cuStreamWaitEvent", driver_.stream_wait(lane_->stream, stage.gathered, 0));
      if (ok) {
        ok = Do("cuMemcpyDtoHAsync", driver_.copy_to_host(HostAddress(pieces.front().to),
                                                          stage.memory, sum, lane_->stream));
      }
      if (ok) ok = Do("cuEventRecord", driver_.event_record(stage.free, lane_->stream));
      return ok ? Began({sum, nullptr}) : ok;
    }
    ok = Do(
        "cuMemcpyHtoDAsync",
        driver_.copy_to_device(stage.memory, HostAddress(pieces.front().from), sum, lane_->stream));
    if (ok) ok = Do("cuEventRecord", driver_.event_record(stage.gathered, lane_->stream));
    if (ok) ok = Do("cuStreamWaitEvent", driver_.stream_wait(lane_->kernels, stage.gathered, 0));
    if (ok) ok = Launch(lane_->kernels, stage.table, pieces.size());
    if (ok) ok = Do("cuEventRecord", driver_.event_record(stage.free, lane_->kernels));
    return ok ? Began({sum, nullptr}, lane_->kernels) : ok;
  }

  Status Whole(const Piece& piece) {
    for (Bytes at = 0; at < piece.bytes;) {
      Bytes bytes = std::min(copies_->settings_.segment, piece.bytes - at);
      const std::uint64_t to = piece.to + at;
      const std::uint64_t from = piece.from + at;
      Step step;
      int code = 0;
      if (way_ == Way::kOnDevice) {
        code = driver_.copy_on_device(to, from, bytes, lane_->stream);
      } else {
        std::byte* host = static_cast<std::byte*>(HostAddress(HostSide(piece) + at));
        const Bytes reach = copies_->pins_->Reach(host);
        if (reach > 0) {
          bytes = std::min(bytes, reach);
        } else {
          if (!copies_->Bounce(lane_)) return Error{Code::kNoMemory, "no memory to copy by way of"};
          if (Status ok = Finish(kInFlight - 1); !ok) return ok;  // The next buffer is free then.
          bytes = std::min(bytes, copies_->BounceBytes());
          std::byte* const bounce = lane_->bounce[begun_ % kInFlight];
          if (way_ == Way::kToDevice) std::memcpy(bounce, host, bytes);
          if (way_ == Way::kToHost) step.to = host;
          host = bounce;
        }
        code = way_ == Way::kToHost ? driver_.copy_to_host(host, from, bytes, lane_->stream)
                                    : driver_.copy_to_device(to, host, bytes, lane_->stream);
      }
      if (Status ok = Do("a copy", code); !ok) return ok;
      step.bytes = bytes;
      if (Status ok = Began(step); !ok) return ok;
      at += bytes;
    }
    return {};
  }

  Status Began(const Step& step, GpuStream on = nullptr) {
    if (Status ok = Finish(kInFlight - 1); !ok) return ok;
    const std::size_t at = begun_ % kInFlight;
    const int code = driver_.event_record(lane_->done[at], on == nullptr ? lane_->stream : on);
    if (Status ok = Do("cuEventRecord", code); !ok) return ok;
    steps_[at] = step;
    ++begun_;
    return {};
  }

  // Until at most `left` are under way.
  Status Finish(std::size_t left) {
    while (begun_ - ended_ > left) {
      const std::size_t at = ended_ % kInFlight;
      if (Status ok = copies_->Await(lane_->done[at]); !ok) return ok;
      const Step& step = steps_[at];
      if (step.to != nullptr) std::memcpy(step.to, lane_->bounce[at], step.bytes);
      ++ended_;
      so_far_ += step.bytes;
      if (arrived_ && !arrived_(so_far_)) {
        return Error{Code::kCancelled, "the copy was called off"};
      }
    }
    return {};
  }

  GpuCopies* const copies_;
  const GpuDriver& driver_;
  const Way way_;
  Lane* const lane_;
  const std::function<bool(Bytes)>& arrived_;
  std::array<Step, kInFlight> steps_{};
  std::size_t begun_ = 0;
  std::size_t ended_ = 0;
  std::size_t next_stage_ = 0;
  Bytes so_far_ = 0;
};

Status GpuCopies::Run(Way way, std::vector<Piece> pieces, const DeviceOrder& order,
                      const std::function<bool(Bytes)>& arrived) {
  Coalesce(&pieces);
  if (pieces.empty()) {
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
    done = job.After(order);
    if (done) done = job.Run(pieces);
  } catch (const std::bad_alloc&) {
    done = Error{Code::kNoMemory, "no memory"};
  }
  const bool clean = done || Drain(lane->get());
  Give(way, std::move(*lane), clean);
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
