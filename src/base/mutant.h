// Planted bugs. In the product MutantOn() is the constant false and costs
// nothing; the simulator's own build of the engine (SPILLWAY_MUTANTS) can
// switch exactly one on, to prove that its checks would see such a bug.
#pragma once

#include <cstdint>
#include <string_view>

namespace spillway {

// Grouped by the invariant (ARCHITECTURE.md, "What must hold") they break.
enum class Mutant : std::uint8_t {
  kNone,
  // 1: accounting
  kReservationLeaked,      // A failed set keeps its reservation.
  kCapacityIgnored,        // Room is not made before a set.
  kFreedTwiceInAccount,    // A departure is subtracted twice.
  kLedgerOverCommit,       // The card hands out more than it has.
  kBudgetForgetsReserved,  // Sets under way do not count against the budget.
  // 2: leases
  kEvictsLeased,        // A plan ignores the lease.
  kReplaceFreesLeased,  // Setting a leased key frees the old bytes at once.
  kRewritesLeased,      // A key is set anew in place while it is read.
  kZombieNeverFreed,    // The last release of a dead generation frees nothing.
  // 3: values and causes
  kServesOldGeneration,  // A replaced generation stays findable.
  kKeyNotCompared,       // Equal hashes count as equal keys.
  kRemovalUnlogged,      // An eviction leaves no event.
  kRemovalLoggedTwice,
  kMatchIgnoresGeneration,  // A chain goes on behind a replaced parent.
  // 4: failed operations
  kVisibleBeforeCommit,  // A reservation can be read before it is whole.
  kFailedSetErasesOld,   // A refused set removes the generation before it.
  kLateCommit,           // A set whose time is over is committed all the same.
  kTornCopy,             // Only the first fragment of a value arrives.
  // 5: one owner
  kChunkLeak,
  kDoubleFreeSlot,
  kPartialMapNotUnwound,
  // 6: level and refusal
  kNoDwell,            // Levels are left with the first lower sample.
  kSkipsOneLevelOnly,  // Upwards by one level per sample.
  kUnknownIsZero,      // A failed reading counts as no pressure.
  kEmergencyAdmits,
  kUnknownGrows,        // The tier grows while pressure is unknown.
  kStaleSampleTrusted,  // The age of the last sample is not looked at.
  // 7: who leaves
  kRelaxedEvicts,
  kIdleLimitIgnored,     // NORMAL takes entries idle for less than its limit.
  kEmergencyTakesFresh,  // EMERGENCY destroys entries idle 30 s or less.
  kParentBeforeChild,
  kOrderReversed,
  kReliefOvershoots,  // A plan does not stop at its target.
  kRoomTakesTooMuch,
  kReserveIgnored,
  kUseNotStamped,    // A hit does not count as a use.
  kIdleGraphOrders,  // A step graph without a live run orders who leaves.
  kUnwantedKept,     // In NORMAL the idle limit holds for those no live run wants.
  // 8: liveness
  kWaiterForgotten,  // An operation's completion is lost.
  kNeverLeavesEmergency,
  kReaperSleeps,  // Of all dead generations only the first is reaped.
  // 9: after a crash
  kDeadShareKept,
  // 10: determinism
  kOrderByAddress,   // Ties are broken by something that differs per run.
  kGenerationsGoOn,  // Generations are numbered across caches.

  // Several tiers, for tests/tiersim.
  // 1: accounting
  kBackedMarkKept,  // A copy whose copy below has gone still counts as backed.
  kLandingLeaked,   // The room of a move that came too late is not given back.
  kPassingLeaked,   // Memory lent for a read is never given back.
  // 3: values and causes
  kReplacedGetMisses,  // A get that waits when its key is set anew misses.
  // 4: nothing unverified
  kTornMoveCommitted,    // What has arrived is not verified.
  kFailedMoveCommitted,  // A move that failed counts as a copy.
  kCorruptBlobServed,
  kTwoLoadsOfOne,  // A second get starts a second load.
  // 5: one owner
  kErasedBlobStays,  // Who goes leaves its blob on disk.
  kPinKept,          // A move that has ended keeps its entry.
  kAsideForgotten,   // Who was looked at and stays is in no line any more.
  // 6: level and refusal
  kEmergencyTakesMoves,  // A tier in EMERGENCY takes what leaves those above.
  // 7: who leaves
  kParentLeavesFirst,    // A parent is demoted before those that continue it.
  kDestroyedNotDemoted,  // What a lower tier could take is destroyed.
  kAskDestroys,
  kLowerTierDestroysAll,  // Relief of a tier takes the copies above along.
  kSoonestLeavesFirst,    // With a step graph: who runs next leaves first.
  kRunningDestroyed,      // A running step's contexts are not spared.
  kGraphChangesMissed,    // Only the first word of a graph is heard.
  // 8: liveness
  kFailedLoadForgotten,  // Who waits for a load that fails is not answered.
  kParkedNeverWoken,     // Sets that wait for room wait until their time is over.
  kGoingNeverReturned,   // Bytes count as on their way for ever.
  // 9: after a crash
  kOldBlobAdopted,   // A key erased while the disk was read in comes back.
  kRevokeForgotten,  // A generation that was replaced comes back after a kill.
  kCount
};
// Those before it show with a single tier, too.
inline constexpr Mutant kFirstTierMutant = Mutant::kBackedMarkKept;

#if defined(SPILLWAY_MUTANTS)
inline Mutant& ActiveMutant() {
  static thread_local Mutant active = Mutant::kNone;
  return active;
}
inline bool MutantOn(Mutant mutant) { return ActiveMutant() == mutant; }
#else
constexpr bool MutantOn(Mutant) { return false; }
#endif

}  // namespace spillway
