// SPDX-License-Identifier: Apache-2.0
// A tier above full tiers: nothing more of it can be made clean. It takes new bytes only
// while its pressure stays under CRITICAL, so that a neighbour who takes no more than the
// reserve never drives it into EMERGENCY. Beyond that a set makes room by giving up what
// the order ranks lowest, here or below.
#include <algorithm>
#include <new>

#include "base/mutant.h"
#include "base/reserve_one.h"
#include "cache/engine.h"

namespace spillway {

namespace {
// Entries that can't go, passed by in one round, and rounds of one call.
constexpr int kPassedByMost = 512;
constexpr int kRounds = 4;
// As many as may be queued or in flight while memory is given back.
constexpr std::size_t kLinkBusy = 64;
}  // namespace

// Whether no lower tier could take so many bytes more without destroying. A tier that
// takes nothing only for the moment is not full.
bool Engine::IsFullBelow(const TierState& tier, Bytes bytes, TimePoint now) const {
  if (tier.last() || loading_) return false;
  for (const TierState* below = tier.below; below != nullptr; below = below->below) {
    if (below->blocked() || below->estimator.unknown() || now < below->write_backoff_until) {
      return false;
    }
    if (Lacking(*below, bytes) == 0) return false;
    if (!below->last() && store_->clean_bytes(below->id) >= bytes) return false;
  }
  return true;
}

// The bytes by which projected pressure is over CRITICAL less its exit band. Unlike the
// estimate that relief uses, it counts what has come in since the last sample.
Bytes Engine::PastLimit(const TierState& tier) const {
  if (tier.estimator.unknown() || tier.estimator.total() == 0) return 0;
  const Options& options = settings_.options;
  const auto total = static_cast<double>(tier.estimator.total());
  const auto most = static_cast<Bytes>((options.thresholds.critical - options.exit_band) * total);
  const Bytes dirty = DirtyBytes(tier);
  const Bytes available = tier.estimator.Free(dirty - std::min(dirty, tier.going));
  return Excess(tier.estimator.total() - available, most);
}

// For an entry that has its memory already. No set is refused because of the limit.
void Engine::StayUnderLimit(TierState& tier, const NewEntry& entry, TimePoint now) {
  const Bytes past = std::min(entry.bytes, PastLimit(tier));
  if (past == 0 || !IsFullBelow(tier, entry.bytes, now)) return;
  const Why why{Action::kDestroy, Reason::kRoom, OrderName(tier), RoomOf::kLastCopies};
  (void)GiveUpLowest(tier, past, why, ParentNamed(entry), now);
}

// Copies that would wait behind others come too late, and until they arrive their sources
// are pressure: that stays well under what EMERGENCY is away.
bool Engine::IsLinkBusy(const TierState& tier) const {
  return transfer_queue_->Waiting(tier.id, tier.below->id) >= kLinkBusy ||
         tier.going > tier.estimator.total() / 100;
}

// Makes dirty bytes of the tier clean in place of last copies below that are ranked lower,
// and otherwise destroys them. Returns how many are gone or on their way.
Bytes Engine::GiveUpLowest(TierState& tier, Bytes bytes, const Why& why, EntryId except,
                           TimePoint now) {
  Bytes given = 0;
  // Where clean entries continue all that come first, the clean ones are dropped, which
  // loses nothing: after them the others can go.
  const Why drop{Action::kDrop, why.reason, why.order};
  for (int round = 0; round < kRounds && given < bytes; ++round) {
    if (round > 0) {
      const Bytes before = store_->bytes(tier.id);
      DropCleanBytes(tier, bytes - given, drop, now);
      if (store_->bytes(tier.id) == before) break;
    }
    int passed_by = 0;
    try {
      while (given < bytes && passed_by < kPassedByMost) {
        ReserveOne(candidates_back_);
        const std::optional<EntryId> next = NextByOrder(tier, *tier.dirty);
        if (!next) break;
        const Bytes size = store_->slots().slot(next->slot).size;
        const LowerCopies* const copies = store_->slots().record(next->slot).below;
        const bool moves = copies != nullptr && copies->transfer != nullptr;
        // Also one that others continue: it is given up after them, clean.
        Going going = Going::kNowhere;
        if (!moves && !IsLinkBusy(tier)) {
          going = SendDown(tier, next->slot, why, Priority::kGiveBack, false, now);
        }
        if (going == Going::kDown) {
          given += size;
          continue;
        }
        candidates_back_.push_back(*next);
        if (going == Going::kFull) {  // Room is being made below.
          PutBack();
          return given;
        }
        ++passed_by;
        if (moves || *next == except || !MayBeEvicted(tier, next->slot)) continue;
        candidates_back_.pop_back();
        if (DropOrRemove(tier, next->slot, why, now)) {
          given += size;
          --passed_by;
        } else {
          candidates_back_.push_back(*next);
        }
      }
    } catch (const std::bad_alloc&) {
      round = kRounds;  // The rest is not given up.
    }
    PutBack();
  }
  return given;
}

}  // namespace spillway
