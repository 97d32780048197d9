// SPDX-License-Identifier: Apache-2.0
// A Transfer is one value being copied from one tier to another. The engine creates it
// together with its destination, a `TransferQueue` runs it, and the engine commits the copy or
// frees the destination. Until then a lease held by the transfer keeps the source as it
// is.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/strand.h"
#include "cache/store.h"
#include "spillway/fragment.h"
#include "spillway/mode.h"
#include "spillway/result.h"
#include "spillway/units.h"
#include "tier/seal_crew.h"

namespace spillway {

// Which queued transfer runs first. Giving memory back comes before gets, and
// background work comes last.
enum class Priority : std::uint8_t { kGiveBack, kGet, kPrefetch, kWriteBack, kScrub };
inline constexpr std::size_t kPriorities = 5;
inline constexpr bool IsBackground(Priority priority) { return priority >= Priority::kWriteBack; }

// A get that waits for an entry to come into memory. Strand only. `done` is called
// once: with the leased slot, with an error, or with neither (the key is not there).
struct PendingGet {
  PendingGet* next = nullptr;
  std::uint64_t hash = 0;
  std::string_view key;
  TimePoint deadline = TimePoint::max();
  // Where its bytes are wanted; empty: in any memory.
  std::optional<Place> where = {};
  const std::byte* data = nullptr;  // Where they are; set before `done`.
  void (*done)(PendingGet* self, Slot* leased, Status status) = nullptr;
};

struct Transfer : Strand::Task {
  void* owner = nullptr;  // Given back to `run`: the Core it belongs to.
  EntryId id;
  // Both kDisk: the blob is only read and verified (scrub).
  TierId from = TierId::kDevice;
  TierId to = TierId::kHost;
  Priority priority = Priority::kWriteBack;
  Bytes bytes = 0;
  const std::byte* source = nullptr;  // If it is in memory.
  BlobFacts facts;                    // Of the blob that is read or written.
  BlobId blob = kNoBlob;              // The source, if it is on disk.
  CopyDestination destination;
  bool staging = false;  // Its destination is a staging buffer, for waiting gets.
  std::optional<Seal> seal;
  bool read_back = true;  // Verify what was written to disk by reading it.

  // Downwards: the reason, and whether the copy in `from` is dropped afterwards.
  Reason reason = Reason::kIdle;
  std::string_view order;
  bool then_drop = false;

  PendingGet* pending_gets = nullptr;
  bool background_at_start = false;
  TimePoint started{};  // Upwards: to measure the rate.

  std::atomic<bool> cancelled{false};  // The transfer stops at the next piece.
  Status status;                       // Set by the transfer thread.
  bool source_damaged = false;         // The error is due to damaged source bytes.
};

// The tiers that transfers run between.
struct TransferPaths {
  Tier* device = nullptr;
  Tier* host = nullptr;
  BlobStore* disk = nullptr;
  // For a device whose memory only it can read; otherwise null.
  SealCrew* crew = nullptr;
};

// Copies the bytes and verifies what has arrived; the result is in `status`. Any
// thread; once for each transfer.
void RunTransfer(const TransferPaths& ways, Transfer* transfer);

// Whether running it together with others of its kind saves work: a small value on its
// way from memory to disk.
inline bool IsBatched(const Transfer& transfer) {
  return transfer.to == TierId::kDisk && transfer.from != TierId::kDisk &&
         transfer.bytes <= BlobStore::kBatchedMax;
}
// Runs several of that kind, as RunTransfer runs one; each gets a status of its own.
void RunTransferBatch(const TransferPaths& ways, std::span<Transfer* const> transfers);

// Runs transfers outside the strand, a bounded number at a time, urgent ones first.
class TransferQueue {
 public:
  virtual ~TransferQueue() = default;
  // Whether a transfer between these two could start now: there may be no thread for
  // it. On the strand, before Start.
  virtual bool IsReady(TierId, TierId) { return true; }
  // On the strand. The transfer is posted to the strand when it is done.
  virtual void Start(Transfer* transfer) = 0;
  // Raises the priority of a transfer that is still queued.
  virtual void Raise(Transfer* transfer, Priority priority) = 0;
  // How many between these two are queued or in flight.
  virtual std::size_t Waiting(TierId from, TierId to) const = 0;
};

}  // namespace spillway
