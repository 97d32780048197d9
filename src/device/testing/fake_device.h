// SPDX-License-Identifier: Apache-2.0
// A Device for the simulator and for tests: heap memory on a SimCard, quick to
// create, and strict. Memory that is not mapped is poison; mapping twice,
// unmapping twice or copying outside mapped memory stops the program. Faults
// happen when a test asks for them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "device/device.h"
#include "device/testing/sim_card.h"

namespace spillway::testing {

struct FakeDeviceOptions {
  Bytes total = 16 * kMiB;
  // A power of two of at least 4 KiB. 0: about total / 256.
  Bytes chunk_bytes = 0;
  bool shared = false;
  std::string name = "fake";
  // Off: chunks are not filled when mapped and unmapped, for speed on large totals.
  bool poison = true;
  // A card shared with other fakes; it must outlive the device, and its total
  // wins. Null: a card of its own.
  SimCard* card = nullptr;
};

class FakeDevice final : public Device {
 public:
  static constexpr std::byte kPoison{0xDB};

  struct Counts {
    std::uint64_t maps = 0;          // Successful ones.
    std::uint64_t map_failures = 0;  // For any reason.
    std::uint64_t unmaps = 0;
    std::uint64_t reads = 0;
    std::uint64_t copies_in = 0;
    std::uint64_t copies_out = 0;
    Bytes bytes_in = 0;
    Bytes bytes_out = 0;
    Bytes mapped = 0;      // At this moment.
    Bytes mapped_max = 0;  // The most ever.
  };

  explicit FakeDevice(const FakeDeviceOptions& options = {});
  ~FakeDevice() override;

  // --- Device ---
  std::string_view name() const override { return options_.name; }
  Bytes total() const override { return card_->total(); }
  bool shared() const override { return options_.shared; }
  Bytes chunk_bytes() const override { return chunk_bytes_; }
  Result<Reading> ReadMemory() override;
  Result<std::byte*> ReserveRange(Bytes bytes) override;
  void ReleaseRange(std::byte* base, Bytes bytes) override;
  Status MapChunk(std::byte* at) override;
  void UnmapChunk(std::byte* at) override;
  Status CopyIn(std::byte* to, const Source& source) override;
  Status CopyOut(const std::byte* from, Bytes bytes, const Sink& sink) override;

  // --- the neighbours ---
  // Makes a neighbour hold this much, as far as the card has it. Returns what
  // it holds now. (To report impossible values, use SetLie.)
  Bytes SetForeign(Bytes bytes);
  Bytes foreign() const;
  // The process of this device dies: its share returns to the card by reaping.
  // Afterwards only destruction is allowed.
  void Kill();

  // --- faults ---
  // The n-th MapChunk from now (1: the next) fails, once or from then on.
  void FailMapAt(std::uint64_t n, bool and_all_after = false);
  void ClearMapFault() { FailMapAt(0); }
  // ReserveRange fails while set.
  void SetReserveFails(bool fails) { reserve_fails_ = fails; }
  void SetReadFails(bool fails) { read_fails_ = fails; }
  // ReadMemory returns this instead of the truth; empty: the truth.
  void SetLie(std::optional<Reading> lie);
  // While set, ReadMemory does not return. A single-threaded world checks
  // hanging() first and delivers no sample.
  void SetHangs(bool hangs);
  bool hanging() const { return hangs_; }

  // --- counters, read while nothing is being mapped ---
  Counts counts() const;
  bool IsMapped(const std::byte* at, Bytes bytes) const;
  SimCard& card() { return *card_; }

 private:
  struct Range {
    void* mapping = nullptr;    // One chunk larger than the range.
    std::byte* base = nullptr;  // The first chunk-aligned address in it.
    Bytes bytes = 0;
    std::vector<std::uint8_t> chunks;  // kFresh, kMapped or kUnmapped each.
  };

  const Range* Find(const std::byte* at) const;
  std::uint8_t& ChunkState(std::byte* at);
  bool ToldToFailMap();

  const FakeDeviceOptions options_;
  std::unique_ptr<SimCard> own_card_;
  SimCard* const card_;
  const Bytes chunk_bytes_;
  const std::unique_ptr<SimCard::Process> process_;
  std::unique_ptr<SimCard::Process> neighbour_;  // Set by the first SetForeign.

  // Strand only, like mapping.
  std::vector<Range> ranges_;
  std::uint64_t map_calls_ = 0;
  std::uint64_t fail_from_ = 0;  // In map_calls_; 0: never.
  bool fail_all_after_ = false;
  bool reserve_fails_ = false;
  Bytes mapped_max_ = 0;
  std::uint64_t maps_ = 0;
  std::uint64_t map_failures_ = 0;
  std::uint64_t unmaps_ = 0;

  // Any thread.
  std::atomic<bool> read_fails_{false};
  std::atomic<bool> hangs_{false};  // Written under fault_mutex_.
  Mutex fault_mutex_;
  CondVar hang_over_;
  std::optional<Reading> lie_ SPILLWAY_GUARDED_BY(fault_mutex_);
  std::atomic<std::uint64_t> reads_{0};
  std::atomic<std::uint64_t> copies_in_{0};
  std::atomic<std::uint64_t> copies_out_{0};
  std::atomic<Bytes> bytes_in_{0};
  std::atomic<Bytes> bytes_out_{0};
};

}  // namespace spillway::testing
