// A Move is one value on its way from one tier to another. The engine
// makes it, with the room it will land in; a Mover carries it; the engine
// commits it or takes the room back. Until then the source stays as it is, held
// by a lease of the transfer's own.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/strand.h"
#include "cache/store.h"
#include "spillway/fragment.h"
#include "spillway/mode.h"
#include "spillway/result.h"
#include "spillway/units.h"
#include "tier/seal_crew.h"

namespace spillway {

// What is carried first. Whoever waits longest for memory, not for data.
enum class Priority : std::uint8_t { kGiveBack, kGet, kPrefetch, kWriteBehind, kScrub };
inline constexpr std::size_t kPriorities = 5;
inline constexpr bool IsBackground(Priority priority) { return priority >= Priority::kWriteBehind; }

// Somebody who wants an entry that is not in memory. Strand only. `done` is
// called once: with the leased slot, with an error, or with neither (it is not
// there).
struct Waiter {
  Waiter* next = nullptr;
  std::uint64_t hash = 0;
  std::string_view key;
  TimePoint deadline = TimePoint::max();
  // Where its bytes are wanted; empty: in whatever memory.
  std::optional<Place> where = {};
  const std::byte* data = nullptr;  // Where they are, when it is answered.
  void (*done)(Waiter* self, Slot* leased, Status status) = nullptr;
};

struct Move : Strand::Task {
  void* owner = nullptr;  // Whose strand it comes back to.
  EntryId id;
  // From disk to disk: its bytes are read where they are and verified.
  TierId from = TierId::kDevice;
  TierId to = TierId::kHost;
  Priority priority = Priority::kWriteBehind;
  Bytes bytes = 0;
  const std::byte* source = nullptr;  // In memory.
  BlobFacts facts;                    // What a blob on disk is, or shall be.
  BlobId blob = kNoBlob;              // Where it comes from, if from disk.
  Landing landing;
  bool passing = false;  // It lands in memory of no tier, for whoever waits.
  std::optional<Seal> seal;
  bool read_back = true;  // What was written to disk is read again.

  // Down: why, and whether it leaves `from` then.
  Reason reason = Reason::kIdle;
  std::string_view order;
  bool then_drop = false;

  Waiter* waiters = nullptr;
  bool background_at_start = false;
  TimePoint started{};  // On its way up, to learn how fast that goes.

  std::atomic<bool> cancelled{false};  // The mover stops at the next piece.
  Status status;                       // The mover's answer.
  bool source_damaged = false;         // It is why that is an error.
};

// What movers carry between.
struct Ways {
  Tier* device = nullptr;
  Tier* host = nullptr;
  BlobStore* disk = nullptr;
  // For a device whose memory only it can read; else null.
  SealCrew* crew = nullptr;
};

// Carries it, whole, and verifies what has arrived; the answer is in `status`.
// Whichever thread; for each transfer once.
void Carry(const Ways& ways, Move* transfer);

// Carries transfers away from the strand, bounded, the urgent ones first.
class Mover {
 public:
  virtual ~Mover() = default;
  // Whether it could carry now what goes between these two: there may be no
  // thread to be had. From the strand, before Start.
  virtual bool IsReady(TierId, TierId) { return true; }
  // From the strand. It will be posted to the strand when it is done.
  virtual void Start(Move* transfer) = 0;
  // A transfer that waits for its turn is more urgent than it was.
  virtual void Raise(Move* transfer, Priority priority) = 0;
  // How many wait or are under way between these two.
  virtual std::size_t Waiting(TierId from, TierId to) const = 0;
};

}  // namespace spillway
