// SPDX-License-Identifier: Apache-2.0
#include "cli/selftest_checks.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/parse.h"
#include "cli/holdings.h"
#include "tier/blob.h"

namespace spillway {

namespace {

using Steady = std::chrono::steady_clock;

constexpr Bytes kCopied = 32 * kMiB;  // At most this, and at most a quarter of the free memory.
constexpr Bytes kPiece = 12'345;      // Of scattered data; not a power of two.
constexpr Bytes kGap = 64;

double Milliseconds(Steady::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

std::string Rate(Bytes bytes, Steady::duration time) {
  const double seconds = std::max(std::chrono::duration<double>(time).count(), 1e-9);
  return fmt::format("{:.1f} GB/s", static_cast<double>(bytes) / seconds / 1e9);
}

// Host memory in whole pages, so that it can be registered with a driver.
class HostBlock {
 public:
  explicit HostBlock(Bytes bytes)
      : bytes_((bytes + kPage - 1) / kPage * kPage),
        at_(static_cast<std::byte*>(std::aligned_alloc(kPage, bytes_))) {}
  ~HostBlock() { std::free(at_); }
  HostBlock(const HostBlock&) = delete;
  HostBlock& operator=(const HostBlock&) = delete;
  std::byte* at() const { return at_; }
  Bytes bytes() const { return bytes_; }
  void Fill(std::uint64_t seed) const {
    std::mt19937_64 random(seed);
    for (Bytes at = 0; at < bytes_; at += sizeof(std::uint64_t)) {
      const std::uint64_t word = random();
      std::memcpy(at_ + at, &word, sizeof word);
    }
  }

 private:
  static constexpr Bytes kPage = 4096;
  const Bytes bytes_;
  std::byte* const at_;
};

// The pieces in the order of their addresses, or every second one first.
template <typename Piece, typename Byte>
std::vector<Piece> Scatter(Byte* at, Bytes bytes) {
  std::vector<Piece> pieces;
  for (const Bytes first : {Bytes{0}, kPiece}) {
    for (Bytes from = first; from < bytes; from += 2 * kPiece) {
      pieces.push_back({at + from, std::min(kPiece, bytes - from), Place::kHost});
    }
  }
  return pieces;
}

struct Blocks {
  const HostBlock* up;
  const HostBlock* down;
};

// Copies bytes up and down. Empty: the same bytes came back; otherwise what went wrong.
std::string UpAndDown(Device* device, std::byte* at, Bytes bytes, const Blocks& blocks,
                      bool scattered, std::string* rates) {
  std::memset(blocks.down->at(), 0, bytes);
  const Source source = scattered ? Source(Scatter<Fragment>(blocks.up->at(), bytes))
                                  : Source(blocks.up->at(), bytes);
  const Sink sink = scattered ? Sink(Scatter<MutableFragment>(blocks.down->at(), bytes))
                              : Sink(blocks.down->at(), bytes);
  const auto start = Steady::now();
  if (Status in = device->CopyIn(at, source); !in) return "up: " + in.error().message;
  const auto between = Steady::now();
  if (Status out = device->CopyOut(at, bytes, sink); !out) return "down: " + out.error().message;
  const auto end = Steady::now();
  *rates = fmt::format("{} up, {} down", Rate(bytes, between - start), Rate(bytes, end - between));
  if (std::memcmp(blocks.up->at(), blocks.down->at(), bytes) == 0) return {};
  Bytes wrong = 0;
  while (blocks.up->at()[wrong] == blocks.down->at()[wrong]) ++wrong;
  return fmt::format("other bytes came back, from byte {} of {} on", wrong, bytes);
}

Bytes Affordable(Device* device, Bytes most) {
  const Result<Reading> reading = device->ReadMemory();
  const Bytes free = reading ? reading->free : 0;
  const Bytes chunk = device->chunk_bytes();
  return std::clamp<Bytes>(std::min(most, free / 4) / chunk * chunk, chunk, std::max(most, chunk));
}

}  // namespace

void CheckChunks(Device* device, DeviceReport* report) {
  const Bytes bytes = std::max(Affordable(device, kCopied), 2 * device->chunk_bytes());
  const Bytes count = bytes / device->chunk_bytes();
  const Result<Reading> before = device->ReadMemory();
  Holdings holdings(device);
  Status taken = holdings.Reserve(bytes);
  const auto start = Steady::now();
  if (taken) taken = holdings.Take(bytes);
  const auto mapped = Steady::now();
  if (!taken) return report->Add("chunks", CheckState::kFailed, taken.error().message);
  const Result<Reading> meanwhile = device->ReadMemory();
  const auto unmapping = Steady::now();
  holdings.GiveBackDownTo(0);
  const auto end = Steady::now();
  if (!before || !meanwhile) {
    const Error& why = before ? meanwhile.error() : before.error();
    return report->Add("chunks", CheckState::kFailed, "what is free can't be read: " + why.message);
  }
  if (meanwhile->free >= before->free) {
    return report->Add(
        "chunks", CheckState::kFailed,
        fmt::format("{} were taken, and {} are free where {} were before", FormatBytes(bytes),
                    FormatBytes(meanwhile->free), FormatBytes(before->free)));
  }
  report->Add("chunks", CheckState::kOk,
              fmt::format("{} of {}: taken in {:.3f} ms each, returned in {:.3f} ms each", count,
                          FormatBytes(device->chunk_bytes()),
                          Milliseconds(mapped - start) / static_cast<double>(count),
                          Milliseconds(end - unmapping) / static_cast<double>(count)));
}

void CheckCopies(Device* device, GpuDevice* gpu, DeviceReport* report) {
  const Bytes bytes = Affordable(device, kCopied);
  Holdings holdings(device);
  Status taken = holdings.Reserve(bytes);
  if (taken) taken = holdings.Take(bytes);
  const HostBlock up(bytes);
  const HostBlock down(bytes);
  if (taken && (up.at() == nullptr || down.at() == nullptr)) {
    taken = Error{Code::kNoMemory, "no host memory"};
  }
  if (!taken) return report->Add("copies", CheckState::kFailed, taken.error().message);
  std::uint64_t seed = 1;
  const auto check = [&](std::string name, bool scattered) {
    up.Fill(seed++);
    std::string rates;
    // The range does not end at its last byte: real sizes are seldom whole pages.
    const std::string wrong =
        UpAndDown(device, holdings.base(), bytes - kGap + 1, {&up, &down}, scattered, &rates);
    report->Add(std::move(name), wrong.empty() ? CheckState::kOk : CheckState::kFailed,
                wrong.empty()
                    ? fmt::format("{}: {}, every byte as it was", FormatBytes(bytes), rates)
                    : wrong);
  };
  if (gpu == nullptr) {
    check("copies", false);
    check("copies, scattered", true);
    return;
  }
  check("copies, pageable", false);
  gpu->pins()->Added(up.at(), up.bytes());
  gpu->pins()->Added(down.at(), down.bytes());
  if (gpu->registered() >= up.bytes() + down.bytes()) {
    check("copies, pinned", false);
    check("copies, scattered", true);
  } else {
    report->Add("copies, pinned", CheckState::kFailed,
                "the driver does not register host memory: copies go by way of buffers, slower");
    check("copies, scattered", true);
  }
  gpu->pins()->Removed(up.at(), up.bytes());
  gpu->pins()->Removed(down.at(), down.bytes());
}

void CheckKernels(GpuDevice* gpu, DeviceReport* report) {
  if (gpu->driver().kind != GpuKind::kCuda) {
    return report->Add("kernels", CheckState::kSkipped,
                       "there are none for this vendor: pieces are copied one by one, and the host "
                       "verifies");
  }
  if (!gpu->gathers() || !gpu->makes_hashes()) {
    return report->Add("kernels", CheckState::kFailed,
                       "the driver does not load them: pieces are copied one by one, and the host "
                       "verifies; slower, not wrong");
  }
  const Bytes bytes = std::max<Bytes>(gpu->chunk_bytes(), 4 * kHashPieceBytes);
  Holdings holdings(gpu);
  Status taken = holdings.Reserve(bytes);
  if (taken) taken = holdings.Take(bytes);
  if (!taken) return report->Add("kernels", CheckState::kFailed, taken.error().message);
  const HostBlock block(bytes);
  if (block.at() == nullptr) return report->Add("kernels", CheckState::kFailed, "no host memory");
  block.Fill(77);
  std::vector<Hash128> hashes;
  const Status copied =
      gpu->CopyFromHost(holdings.base(), block.at(), bytes, [](Bytes) { return true; }, &hashes);
  if (!copied) return report->Add("kernels", CheckState::kFailed, copied.error().message);
  for (Bytes i = 0; i < hashes.size(); ++i) {
    if (hashes[i] != Hash128Of(block.at() + i * kHashPieceBytes, kHashPieceBytes)) {
      return report->Add("kernels", CheckState::kFailed,
                         fmt::format("piece {} of {} was hashed wrong", i, hashes.size()));
    }
  }
  if (hashes.empty()) {
    return report->Add("kernels", CheckState::kFailed, "nothing was hashed");
  }
  report->Add("kernels", CheckState::kOk,
              fmt::format("loaded; {} checksums made on the device, all right", hashes.size()));
  const Result<CopyTrial> trial = gpu->TryCopies();
  if (!trial) return report->Add("pieces", CheckState::kFailed, trial.error().message);
  std::string rows;
  for (const CopyTrial::Row& row : trial->rows) {
    fmt::format_to(
        std::back_inserter(rows), "{}{}: {:.2f}", rows.empty() ? "" : ", ", FormatBytes(row.piece),
        std::chrono::duration<double>(row.gathered) / std::chrono::duration<double>(row.direct));
  }
  report->Add("pieces", CheckState::kOk,
              fmt::format("gathered on the device below {}; time gathered / direct: {}",
                          FormatBytes(trial->GatherBelow()), rows));
}

void CheckGivenBack(Device* device, Bytes free_before, DeviceReport* report) {
  const Result<Reading> after = device->ReadMemory();
  if (!after) return report->Add("given back", CheckState::kFailed, after.error().message);
  const Bytes lacking = free_before - std::min(free_before, after->free);
  // Staging buffers stay until the device is closed, and other processes may allocate meanwhile.
  const auto* const gpu = dynamic_cast<GpuDevice*>(device);
  const Bytes staging = gpu == nullptr ? 0 : gpu->ledger().staging;
  const bool stuck = gpu != nullptr && gpu->ledger().stuck > 0;
  if (lacking <= staging + device->chunk_bytes() && !stuck) {
    return report->Add(
        "given back", CheckState::kOk,
        staging == 0 ? "all of it"
                     : fmt::format("all, but {} that copies are staged in", FormatBytes(staging)));
  }
  report->Add("given back", CheckState::kFailed,
              fmt::format("{} less are free than before, and {} of that is staging{}; was another "
                          "process taking memory meanwhile?",
                          FormatBytes(lacking), FormatBytes(staging),
                          stuck ? "; the driver did not take every chunk back" : ""));
}

}  // namespace spillway
