// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/gpu_copy_job.h"

#include <algorithm>
#include <cstring>

namespace spillway {

namespace {

constexpr unsigned kGatherBlocks = 32;
constexpr unsigned kGatherThreads = 512;
constexpr unsigned kHashThreads = 128;
constexpr unsigned kHashThreadsPerPiece = 8;

void* HostAddress(std::uint64_t at) {
  return reinterpret_cast<void*>(at);  // NOLINT(performance-no-int-to-ptr): as drivers do.
}

}  // namespace

Status GpuCopies::Job::After(const DeviceOrder& order) {
  if (order.after == DeviceOrder::After::kNone) return {};
  void* event = order.handle;
  if (order.after == DeviceOrder::After::kStream) {
    event = lane_->order;
    if (Status ok = Do("cuEventRecord", driver_.event_record(event, order.handle)); !ok) return ok;
  }
  if (Status ok = Do("cuStreamWaitEvent", driver_.stream_wait(lane_->stream, event, 0)); !ok) {
    return ok;
  }
  return Do("cuStreamWaitEvent", driver_.stream_wait(lane_->kernels, event, 0));
}

Status GpuCopies::Job::Run(std::span<const Piece> pieces) {
  hashing_ = CanHash(pieces);
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
  const Status done = Finish(0);
  return done ? FinishHashes() : done;
}

// Counts the leading pieces that are small and, on the host's side, contiguous
// in one registered chunk: those can be gathered and copied as one.
std::size_t GpuCopies::Job::SmallOnes(std::span<const Piece> pieces) const {
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

// Counts the leading small pieces that the driver may copy in one call.
std::size_t GpuCopies::Job::BatchOf(std::span<const Piece> pieces) const {
  if (!driver_.has_batch() || way_ == Way::kOnDevice) return 0;
  std::size_t count = 0;
  for (const Piece& piece : pieces) {
    if (count == 1024 || piece.bytes >= copies_->settings_.segment) break;
    if (copies_->pins_->Reach(HostAddress(HostSide(piece))) < piece.bytes) break;
    ++count;
  }
  return count;
}

Status GpuCopies::Job::Batch(std::span<const Piece> pieces) {
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

Status GpuCopies::Job::Launch(GpuStream stream, Piece* table, std::size_t count) {
  auto at = reinterpret_cast<std::uint64_t>(table);
  auto pieces = static_cast<std::uint32_t>(count);
  void* arguments[] = {&at, &pieces};
  const unsigned blocks = std::min<unsigned>(kGatherBlocks, pieces);
  return Do("cuLaunchKernel", driver_.launch(copies_->gather_, blocks, 1, 1, kGatherThreads, 1, 1,
                                             0, stream, arguments, nullptr));
}

Status GpuCopies::Job::Gather(std::span<const Piece> pieces) {
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

Status GpuCopies::Job::Whole(const Piece& piece) {
  for (Bytes at = 0; at < piece.bytes;) {
    const Settings& settings = copies_->settings_;
    Bytes bytes =
        std::min(way_ == Way::kToHost ? settings.segment : settings.segment_up, piece.bytes - at);
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
        if (!copies_->Bounce(lane_)) return Error{Code::kNoMemory, "no memory for a bounce buffer"};
        // That frees the next bounce buffer.
        if (Status ok = Finish(kInFlight - 1); !ok) return ok;
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
    HashBehind(piece.to, at);
  }
  return {};
}

Status GpuCopies::Job::Began(const Step& step, GpuStream on) {
  if (Status ok = Finish(kInFlight - 1); !ok) return ok;
  const std::size_t at = begun_ % kInFlight;
  const int code = driver_.event_record(lane_->done[at], on == nullptr ? lane_->stream : on);
  if (Status ok = Do("cuEventRecord", code); !ok) return ok;
  steps_[at] = step;
  ++begun_;
  return {};
}

// Waits until at most `left` steps are in flight.
Status GpuCopies::Job::Finish(std::size_t left) {
  while (begun_ - ended_ > left) {
    const std::size_t at = ended_ % kInFlight;
    if (Status ok = copies_->Await(lane_->done[at]); !ok) return ok;
    const Step& step = steps_[at];
    if (step.to != nullptr) std::memcpy(step.to, lane_->bounce[at], step.bytes);
    ++ended_;
    so_far_ += step.bytes;
    if (arrived_ && !arrived_(so_far_)) {
      return Error{Code::kCancelled, "the copy was cancelled"};
    }
  }
  return {};
}

// --- checksums ---

bool GpuCopies::Job::CanHash(std::span<const Piece> pieces) const {
  return hashes_ != nullptr && pieces.size() == 1 && pieces.front().to % 16 == 0 &&
         pieces.front().bytes / kHashPieceBytes <= kHashesMax && copies_->HashRoom(lane_);
}

// Pieces whose copies are queued by now are hashed when they have arrived, many
// at once: one piece alone takes as long as a hundred.
void GpuCopies::Job::HashBehind(GpuAddress base, Bytes copied) {
  if (!hashing_) return;
  const auto whole = static_cast<std::size_t>(copied / kHashPieceBytes);
  const std::size_t count = whole - hashed_;
  const bool last = whole == hashes_->size();
  if (count == 0 || (!last && count < copies_->settings_.hash_batch)) return;
  GpuAddress data = base + hashed_ * kHashPieceBytes;
  auto pieces = static_cast<unsigned>(count);
  auto keys = reinterpret_cast<GpuAddress>(lane_->hash_keys);
  auto to = reinterpret_cast<GpuAddress>(lane_->hashes + hashed_);
  void* arguments[] = {&data, &pieces, &keys, &to};
  const unsigned grid = (pieces * kHashThreadsPerPiece + kHashThreads - 1) / kHashThreads;
  kernels_used_ = true;
  int code = driver_.stream_wait(lane_->kernels, lane_->done.at((begun_ - 1) % kInFlight), 0);
  if (code == 0) {
    code = driver_.launch(copies_->hash_, grid, 1, 1, kHashThreads, 1, 1, 0, lane_->kernels,
                          arguments, nullptr);
  }
  // The copy itself is fine; the caller can hash the source instead.
  hashing_ = Do("cuLaunchKernel", code).has_value();
  if (hashing_) hashed_ = whole;
}

Status GpuCopies::Job::FinishHashes() {
  if (hashes_ == nullptr) return {};
  if (kernels_used_) {
    const int code = driver_.event_record(lane_->order, lane_->kernels);
    if (Status ok = Do("cuEventRecord", code); !ok) return ok;
    if (Status ok = copies_->Await(lane_->order); !ok) return ok;
  }
  if (hashing_ && hashed_ == hashes_->size()) {
    std::copy_n(lane_->hashes, hashed_, hashes_->begin());
  } else {
    hashes_->clear();
  }
  return {};
}

}  // namespace spillway
