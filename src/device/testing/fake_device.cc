// SPDX-License-Identifier: Apache-2.0
#include "device/testing/fake_device.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "device/host_copy.h"

namespace spillway::testing {
namespace {

constexpr Bytes kChunkMin = 4 * kKiB;

enum : std::uint8_t { kFresh, kMapped, kUnmapped };

// Not assert: a fake is strict in every build.
void Require(bool holds, const char* what) {
  if (holds) return;
  fmt::print(stderr, "fake device: {}\n", what);
  std::abort();
}

Bytes ChunkBytesFor(const FakeDeviceOptions& options) {
  if (options.chunk_bytes != 0) return options.chunk_bytes;
  const Bytes total = options.card == nullptr ? options.total : options.card->total();
  return std::max(kChunkMin, std::bit_floor(total / 256));
}

}  // namespace

FakeDevice::FakeDevice(const FakeDeviceOptions& options)
    : options_(options),
      own_card_(options.card == nullptr ? std::make_unique<SimCard>(options.total) : nullptr),
      card_(options.card == nullptr ? own_card_.get() : options.card),
      chunk_bytes_(ChunkBytesFor(options)),
      process_(card_->Join()) {
  Require(std::has_single_bit(chunk_bytes_) && chunk_bytes_ >= kChunkMin, "odd chunk size");
}

FakeDevice::~FakeDevice() {
  if (process_->alive()) Require(ranges_.empty(), "destroyed with a range still reserved");
  for (const Range& range : ranges_) ::munmap(range.mapping, range.bytes + chunk_bytes_);
}

Result<Reading> FakeDevice::ReadMemory() {
  reads_.fetch_add(1, std::memory_order_relaxed);
  {
    const MutexLock lock(fault_mutex_);
    while (hangs_) hang_over_.wait(fault_mutex_);
    if (read_fails_) return Error{Code::kUnavailable, "the fake device was told not to answer"};
    if (lie_) return *lie_;
  }
  process_->ledger().TryReap();
  return Reading{.total = card_->total(), .free = process_->ledger().Free()};
}

Result<std::byte*> FakeDevice::ReserveRange(Bytes bytes) {
  Require(bytes > 0 && bytes % chunk_bytes_ == 0, "reserves a range that is not whole chunks");
  if (reserve_fails_) return Error{Code::kNoMemory, "the fake device was told not to reserve"};
  // One chunk more, so that it contains an aligned range; memory comes when touched.
  void* got = ::mmap(nullptr, bytes + chunk_bytes_, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return Error{Code::kNoMemory, std::strerror(errno)};
  const Bytes skip = (0 - reinterpret_cast<std::uintptr_t>(got)) & (chunk_bytes_ - 1);
  ranges_.push_back({.mapping = got,
                     .base = static_cast<std::byte*>(got) + skip,
                     .bytes = bytes,
                     .chunks = std::vector<std::uint8_t>(bytes / chunk_bytes_, kFresh)});
  return ranges_.back().base;
}

void FakeDevice::ReleaseRange(std::byte* base, Bytes bytes) {
  const auto range = std::ranges::find(ranges_, base, &Range::base);
  Require(range != ranges_.end() && range->bytes == bytes, "releases a range it did not reserve");
  Require(std::ranges::count(range->chunks, kMapped) == 0, "releases a range with mapped chunks");
  ::munmap(range->mapping, range->bytes + chunk_bytes_);
  ranges_.erase(range);
}

const FakeDevice::Range* FakeDevice::Find(const std::byte* at) const {
  for (const Range& range : ranges_) {
    if (at >= range.base && at < range.base + range.bytes) return &range;
  }
  return nullptr;
}

std::uint8_t& FakeDevice::ChunkState(std::byte* at) {
  const Range* range = Find(at);
  Require(range != nullptr, "was given a chunk outside every range");
  const auto offset = static_cast<Bytes>(at - range->base);
  Require(offset % chunk_bytes_ == 0, "was given an unaligned chunk");
  return const_cast<Range*>(range)->chunks[offset / chunk_bytes_];
}

bool FakeDevice::ToldToFailMap() {
  ++map_calls_;
  if (fail_from_ == 0) return false;
  return fail_all_after_ ? map_calls_ >= fail_from_ : map_calls_ == fail_from_;
}

Status FakeDevice::MapChunk(std::byte* at) {
  std::uint8_t& state = ChunkState(at);
  Require(state != kMapped, "maps a chunk twice");
  Status taken = ToldToFailMap()
                     ? Status(Error{Code::kNoMemory, "the fake device was told to refuse"})
                     : process_->ledger().Take(chunk_bytes_);
  if (!taken) {
    ++map_failures_;
    return taken;
  }
  // Memory that was mapped before is poison already.
  if (options_.poison && state == kFresh) {
    std::memset(at, std::to_integer<int>(kPoison), chunk_bytes_);
  }
  state = kMapped;
  ++maps_;
  mapped_max_ = std::max(mapped_max_, (maps_ - unmaps_) * chunk_bytes_);
  return {};
}

void FakeDevice::UnmapChunk(std::byte* at) {
  std::uint8_t& state = ChunkState(at);
  Require(state == kMapped, "unmaps a chunk that is not mapped");
  if (options_.poison) std::memset(at, std::to_integer<int>(kPoison), chunk_bytes_);
  state = kUnmapped;
  ++unmaps_;
  process_->ledger().Give(chunk_bytes_);
}

bool FakeDevice::IsMapped(const std::byte* at, Bytes bytes) const {
  const Range* range = Find(at);
  if (range == nullptr) return false;
  const auto offset = static_cast<Bytes>(at - range->base);
  if (bytes > range->bytes - offset) return false;
  for (Bytes i = offset / chunk_bytes_; i * chunk_bytes_ < offset + bytes; ++i) {
    if (range->chunks[i] != kMapped) return false;
  }
  return true;
}

Status FakeDevice::CopyIn(std::byte* to, const Source& source) {
  const Bytes bytes = source.bytes();
  Require(bytes == 0 || IsMapped(to, bytes), "copies into memory that is not mapped");
  GatherToHost(to, source);
  copies_in_.fetch_add(1, std::memory_order_relaxed);
  bytes_in_.fetch_add(bytes, std::memory_order_relaxed);
  return {};
}

Status FakeDevice::CopyOut(const std::byte* from, Bytes bytes, const Sink& sink) {
  Require(bytes == 0 || IsMapped(from, bytes), "copies from memory that is not mapped");
  Require(sink.bytes() >= bytes, "copies into a sink that is too small");
  ScatterFromHost(from, bytes, sink);
  copies_out_.fetch_add(1, std::memory_order_relaxed);
  bytes_out_.fetch_add(bytes, std::memory_order_relaxed);
  return {};
}

Bytes FakeDevice::SetForeign(Bytes bytes) {
  if (neighbour_ == nullptr) neighbour_ = card_->Join();
  Ledger& ledger = neighbour_->ledger();
  ledger.Give(ledger.held());
  ledger.TryReap();
  const Bytes possible = std::min(bytes, ledger.Free());
  if (possible > 0) (void)ledger.Take(possible).has_value();
  return ledger.held();
}

Bytes FakeDevice::foreign() const {
  return neighbour_ == nullptr ? 0 : neighbour_->ledger().held();
}

void FakeDevice::Kill() { process_->Kill(); }

void FakeDevice::FailMapAt(std::uint64_t n, bool and_all_after) {
  fail_from_ = n == 0 ? 0 : map_calls_ + n;
  fail_all_after_ = and_all_after;
}

void FakeDevice::SetHangs(bool hangs) {
  {
    const MutexLock lock(fault_mutex_);
    hangs_ = hangs;
  }
  hang_over_.notify_all();
}

void FakeDevice::SetLie(std::optional<Reading> lie) {
  const MutexLock lock(fault_mutex_);
  lie_ = lie;
}

FakeDevice::Counts FakeDevice::counts() const {
  return {.maps = maps_,
          .map_failures = map_failures_,
          .unmaps = unmaps_,
          .reads = reads_,
          .copies_in = copies_in_,
          .copies_out = copies_out_,
          .bytes_in = bytes_in_,
          .bytes_out = bytes_out_,
          .mapped = (maps_ - unmaps_) * chunk_bytes_,
          .mapped_max = mapped_max_};
}

}  // namespace spillway::testing
