// SPDX-License-Identifier: Apache-2.0
// Planted bugs. In the product MutantOn() is the constant false and costs
// nothing. The simulator's own build of the engine (SPILLWAY_MUTANTS) can
// switch on exactly one, to prove that its checks detect such a bug.
#pragma once

#include <cstdint>
#include <string_view>

namespace spillway {

// Grouped by the invariant (ARCHITECTURE.md, "What must hold") that they break.
enum class Mutant : std::uint8_t {
  kNone,
  // 1: accounting
  kReservationLeaked,      // A failed set keeps its reservation.
  kCapacityIgnored,        // A set does not make room first.
  kFreedTwiceInAccount,    // A removal is subtracted twice.
  kLedgerOverCommit,       // The card hands out more than its total.
  kBudgetForgetsReserved,  // Sets in flight do not count against the budget.
  // 2: leases
  kEvictsLeased,        // A plan ignores leases.
  kReplaceFreesLeased,  // Setting a leased key frees the old bytes at once.
  kZombieNeverFreed,    // The last release of a dead generation frees nothing.
  // 3: values and causes
  kServesOldGeneration,  // A replaced generation stays findable.
  kKeyNotCompared,       // Equal hashes count as equal keys.
  kRemovalUnlogged,      // An eviction leaves no event.
  kRemovalLoggedTwice,
  kMatchIgnoresGeneration,  // A chain continues behind a replaced parent.
  // 4: failed operations
  kVisibleBeforeCommit,  // A reservation can be read before it is complete.
  kFailedSetErasesOld,   // A refused set removes the previous generation.
  kLateCommit,           // A set is committed although its deadline has passed.
  kTornCopy,             // Only the first fragment of a value is copied.
  // 5: one owner
  kChunkLeak,
  kDoubleFreeSlot,
  kPartialMapNotUnwound,
  // 6: level and refusal
  kNoDwell,            // Levels fall with the first lower sample.
  kSkipsOneLevelOnly,  // Levels rise by one per sample.
  kUnknownIsZero,      // A failed reading counts as no pressure.
  kEmergencyAdmits,
  kUnknownGrows,        // The tier grows while pressure is unknown.
  kStaleSampleTrusted,  // The age of the last sample is ignored.
  // 7: which entries are evicted
  kRelaxedEvicts,
  kIdleLimitIgnored,     // NORMAL evicts entries idle for less than its limit.
  kEmergencyTakesFresh,  // EMERGENCY destroys entries idle for 30 s or less.
  kParentBeforeChild,
  kOrderReversed,
  kReliefOvershoots,  // A plan does not stop at its target.
  kRoomTakesTooMuch,
  kReserveIgnored,
  kUseNotStamped,    // A hit does not count as a use.
  kIdleGraphOrders,  // A step graph without a live run determines the eviction order.
  kUnwantedKept,     // In NORMAL the idle limit also protects entries that no live run wants.
  // 8: liveness
  kPendingGetForgotten,  // An operation's completion is lost.
  kNeverLeavesEmergency,
  kReaperSleeps,  // Only the first of all dead generations is reaped.
  // 9: after a crash
  kDeadShareKept,
  // 10: determinism
  kOrderByAddress,   // Ties are broken by a value that differs per run.
  kGenerationsGoOn,  // Generations are numbered across caches.

  // Several tiers, for tests/tiersim.
  // 1: accounting
  kCleanMarkKept,      // An entry whose lower copy is gone still counts as clean.
  kDestinationLeaked,  // Room reserved for a transfer that came too late is not released.
  kStagingLeaked,      // A staging buffer lent for a read is never returned.
  // 3: values and causes
  kReplacedGetMisses,  // A get that is pending when its key is set anew misses.
  // 4: nothing unverified
  kTornMoveCommitted,    // Copied bytes are not verified.
  kFailedMoveCommitted,  // A failed transfer counts as a copy.
  kCorruptBlobServed,
  kTwoLoadsOfOne,  // A second get starts a second load.
  // 5: one owner
  kErasedBlobStays,     // A removed entry leaves its blob on disk.
  kPinKept,             // A finished transfer keeps its entry pinned.
  kCandidateForgotten,  // A candidate that was not evicted is no longer in any queue.
  // 6: level and refusal
  kEmergencyTakesMoves,  // A tier in EMERGENCY accepts entries demoted from above.
  // 7: which entries are evicted
  kParentLeavesFirst,    // A parent is demoted before the entries that continue it.
  kDestroyedNotDemoted,  // An entry that a lower tier could take is destroyed.
  kAskDestroys,
  kLowerTierDestroysAll,    // Relief of a tier also removes the copies above.
  kReliefDestroysLastCopy,  // Relief destroys a last copy although there is a tier below.
  kReliefDestroysBelow,     // Relief destroys last copies below to make room for its own.
  kSoonestLeavesFirst,      // With a step graph: the entries used next are evicted first.
  kRunningDestroyed,        // A running step's contexts are not protected.
  kGraphChangesMissed,      // Only the first update of a graph is applied.
  // 8: liveness
  kFailedLoadForgotten,     // A get that waits for a failing load is not answered.
  kPendingSetNeverRetried,  // Sets that wait for room wait until their deadline.
  kGoingNeverReturned,      // Bytes count as in transfer for ever.
  kBusyNotAskedAgain,       // At a stop, entries that a tier refuses for the moment are given up.
  // 9: after a crash
  kOldBlobAdopted,      // A key that was erased while the disk was loading comes back.
  kTombstoneForgotten,  // A replaced generation comes back after a kill.
  kPartialGroupLost,    // A batch ends with its last full group.
  kDeadlineUntold,      // A changed deadline is not written to disk.
  kLostRangeTrusted,    // Blobs that a lost range of the journal may have deleted are found.
  kGoneErasePending,    // A key erased after its entry was destroyed comes back.
  // 1: counts of several groups of keys
  kDiskEntriesUncounted,  // Entries without bytes in memory are not counted.
  // The index and groups of keys: tested in tests/sim/index_bugs_test.cc.
  kSeedNotUsed,          // All caches hash keys alike.
  kChainUnbounded,       // A bucket's chain of colliding keys has no limit.
  kSecondTableNotRead,   // Keys that moved to the second table are not found there.
  kGroupClearedByCount,  // Clearing a group with half of all entries clears all groups.
  kGroupComesBack,       // A group that was cleared while the disk was loading comes back.

  // The daemon, for tests/serversim. Grouped by the guarantee to a client.
  // Acknowledged writes: after a crash a key has its last value or none.
  kStalePendingAnswers,      // A finished write to disk also completes the next one.
  kReplyBeforeFlush,         // Replies are sent before the disk has the change.
  kDeadlineChangeDropped,    // EXPIRE of a value on disk is answered but changes nothing.
  kDamagedRecordEndsReplay,  // Everything behind a damaged journal record is lost.
  // Databases.
  kFlushDbClearsAll,
  kFlushDbStopsEarly,    // Some keys remain.
  kDbSizeForgetsDisk,    // Writes that only the disk accepted are not counted.
  kRandomKeyOtherDb,     // RANDOMKEY returns a key of another database.
  kKeyspaceExpiresZero,  // INFO keyspace reports no keys with a deadline.
  // Commands that wait.
  kExecHeaderTakenBack,     // A queued command that waits also removes the array's header.
  kWaitRepeatsCommand,      // It runs again from its start, although its write is done.
  kWaitHoldsNoKeys,         // Other writes run between its decision and its effect.
  kWaitOutlivesClient,      // A disconnected client's command still writes.
  kWaitUnbounded,           // A wait for room has no time limit.
  kExecWaitsAnew,           // Each command of an EXEC has a bound of its own.
  kExecIgnoresOutputBound,  // A client that does not read gets replies without limit.
  kUploadHoldsRoom,         // Room announced for an upload is kept although it makes no progress.
  kTrickleHoldsRoom,        // An empty piece counts as progress.
  kGoneLeavesHalf,          // A client that goes leaves its command half done.
  kAnswersWhileLoading,     // Keys that have not been read in count as absent.
  kRoomOfOldValue,          // Room for a value that is to come is made of its key's old one.
  // Replies.
  kGetExOffByOneMs,
  kCount
};
// Mutants before this one can be detected with a single tier, too.
inline constexpr Mutant kFirstTierMutant = Mutant::kCleanMarkKept;
// From here on the engine's two simulators do not use them,
inline constexpr Mutant kFirstIndexMutant = Mutant::kSeedNotUsed;
// and from here on they can be detected only in the daemon.
inline constexpr Mutant kFirstServerMutant = Mutant::kStalePendingAnswers;

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
