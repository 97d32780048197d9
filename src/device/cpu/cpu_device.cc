// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/cpu_device.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include <fmt/format.h>

#include "base/parse.h"
#include "device/host_copy.h"

namespace spillway {
namespace {

constexpr Bytes kPage = 4 * kKiB;
constexpr Bytes kHugePage = 2 * kMiB;
constexpr Bytes kChunkMin = 64 * kKiB;
constexpr Bytes kChunkMax = 32 * kMiB;
constexpr Bytes kChunksPerCard = 256;

Error NoMemory(std::string_view what, Bytes bytes, int number) {
  return Error{Code::kNoMemory, fmt::format("the system refused {} of {}: {}", FormatBytes(bytes),
                                            what, std::strerror(number))};
}

bool IsAligned(const std::byte* at, Bytes to) {
  return (reinterpret_cast<std::uintptr_t>(at) & (to - 1)) == 0;
}

// Chunks must be a power of two, at least a page and at most the card.
Status CheckChunk(Bytes chunk, Bytes total) {
  if (total < kPage) {
    return Error{Code::kInvalidArgument,
                 fmt::format("a card of {} bytes is too small: it needs at least {}", total,
                             FormatBytes(kPage))};
  }
  if (std::has_single_bit(chunk) && chunk >= kPage && chunk <= total) return {};
  return Error{Code::kInvalidArgument,
               fmt::format("chunks of {} bytes do not fit: a power of two from {} to the card's {} "
                           "is needed",
                           chunk, FormatBytes(kPage), FormatBytes(total))};
}

}  // namespace

Bytes CpuDevice::ChunkBytesFor(Bytes total) {
  const Bytes chunk = std::clamp(std::bit_floor(total / kChunksPerCard), kChunkMin, kChunkMax);
  return std::max(kPage, std::min(chunk, std::bit_floor(total)));
}

Result<std::unique_ptr<CpuDevice>> CpuDevice::Open(const CpuDeviceOptions& options) {
  Result<std::unique_ptr<Card>> card = Card::Open({.name = options.name, .total = options.total});
  if (!card) return card.error();
  const Bytes total = (*card)->total();
  const Bytes chunk = options.chunk_bytes.value_or(ChunkBytesFor(total));
  if (Status fits = CheckChunk(chunk, total); !fits) return fits.error();
  const Bytes warm = options.name.empty() ? options.warm_bytes : 0;
  return std::unique_ptr<CpuDevice>(new CpuDevice(std::move(*card), chunk, warm));
}

CpuDevice::CpuDevice(std::unique_ptr<Card> card, Bytes chunk_bytes, Bytes warm_bytes)
    : card_(std::move(card)),
      name_(card_->name().empty() ? "cpu" : "cpu:" + card_->name()),
      chunk_bytes_(chunk_bytes),
      warm_max_(warm_bytes / chunk_bytes) {
  warm_.reserve(warm_max_ + 1);
}

CpuDevice::~CpuDevice() { assert(ranges_ == 0); }

std::vector<DeviceHolder> CpuDevice::Holders() {
  std::vector<DeviceHolder> holders;
  if (!card_->shared()) return holders;
  for (const Ledger::Share& share : card_->Shares()) holders.push_back({share.pid, share.bytes});
  return holders;
}

Result<std::byte*> CpuDevice::ReserveRange(Bytes bytes) {
  assert(bytes % chunk_bytes_ == 0);
  // One chunk more than asked for always contains an aligned range; the edges
  // are unmapped at once.
  const Bytes padded = bytes + chunk_bytes_;
  void* got =
      ::mmap(nullptr, padded, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return NoMemory("address space", padded, errno);
  auto* start = static_cast<std::byte*>(got);
  const Bytes skip = (0 - reinterpret_cast<std::uintptr_t>(start)) & (chunk_bytes_ - 1);
  std::byte* const base = start + skip;
  if (skip > 0) ::munmap(start, skip);
  ::munmap(base + bytes, chunk_bytes_ - skip);
  // Huge pages make first touches and copies cheaper. They never cost memory
  // beyond the chunk, and the card has counted the whole chunk.
  if (chunk_bytes_ >= kHugePage) (void)::madvise(base, bytes, MADV_HUGEPAGE);
  ++ranges_;
  return base;
}

void CpuDevice::ReleaseRange(std::byte* base, Bytes bytes) {
  std::erase_if(warm_, [&](std::byte* at) { return at >= base && at < base + bytes; });
  const int result = ::munmap(base, bytes);
  assert(result == 0);
  (void)result;
  --ranges_;
}

void CpuDevice::ReleaseWarm() {
  for (std::byte* const at : warm_) GiveToKernel(at);
  warm_.clear();
}

Status CpuDevice::MapChunk(std::byte* at) {
  assert(IsAligned(at, chunk_bytes_));
  if (Status taken = card_->Take(chunk_bytes_); !taken) return taken;
  if (std::erase(warm_, at) > 0) return {};
  if (::mprotect(at, chunk_bytes_, PROT_READ | PROT_WRITE) == 0) return {};
  const int number = errno;
  card_->Give(chunk_bytes_);
  return NoMemory("memory", chunk_bytes_, number);
}

void CpuDevice::UnmapChunk(std::byte* at) {
  assert(IsAligned(at, chunk_bytes_));
  if (warm_max_ > 0) {
    warm_.push_back(at);
    if (warm_.size() > warm_max_) {
      GiveToKernel(warm_.front());
      warm_.erase(warm_.begin());
    }
  } else {
    GiveToKernel(at);
  }
  card_->Give(chunk_bytes_);
}

void CpuDevice::GiveToKernel(std::byte* at) {
  // madvise returns the pages and leaves the mapping as it is; it fails only
  // for locked memory, which needs a new mapping. The mprotect may need one
  // mapping more than the system allows. If it fails the chunk stays a range of
  // untouched zeros, which takes no memory.
  if (::madvise(at, chunk_bytes_, MADV_DONTNEED) != 0) {
    void* got = ::mmap(at, chunk_bytes_, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    assert(got == at);
    (void)got;
  } else {
    (void)::mprotect(at, chunk_bytes_, PROT_NONE);
  }
}

Status CpuDevice::CopyIn(std::byte* to, const Source& source) {
  GatherToHost(to, source);
  return {};
}

Status CpuDevice::CopyOut(const std::byte* from, Bytes bytes, const Sink& sink) {
  ScatterFromHost(from, bytes, sink);
  return {};
}

}  // namespace spillway
