// SPDX-License-Identifier: Apache-2.0
#include "tiersim/mutants.h"

#include <iterator>
#include <memory>

#include "tiersim/world.h"

namespace spillway::tiersim {

namespace {

struct Known {
  Mutant mutant;
  std::string_view name;
  int invariant;
};

constexpr Known kKnown[] = {
    {Mutant::kCleanMarkKept, "CleanMarkKept", 1},
    {Mutant::kDestinationLeaked, "DestinationLeaked", 1},
    {Mutant::kStagingLeaked, "StagingLeaked", 1},
    {Mutant::kReplacedGetMisses, "ReplacedGetMisses", 3},
    {Mutant::kTornMoveCommitted, "TornMoveCommitted", 4},
    {Mutant::kFailedMoveCommitted, "FailedMoveCommitted", 4},
    {Mutant::kCorruptBlobServed, "CorruptBlobServed", 4},
    {Mutant::kTwoLoadsOfOne, "TwoLoadsOfOne", 4},
    {Mutant::kErasedBlobStays, "ErasedBlobStays", 5},
    {Mutant::kPinKept, "PinKept", 5},
    {Mutant::kCandidateForgotten, "CandidateForgotten", 5},
    {Mutant::kEmergencyTakesMoves, "EmergencyTakesMoves", 6},
    {Mutant::kParentLeavesFirst, "ParentLeavesFirst", 7},
    {Mutant::kDestroyedNotDemoted, "DestroyedNotDemoted", 7},
    {Mutant::kAskDestroys, "AskDestroys", 7},
    {Mutant::kLowerTierDestroysAll, "LowerTierDestroysAll", 7},
    {Mutant::kReliefDestroysLastCopy, "ReliefDestroysLastCopy", 7},
    {Mutant::kReliefDestroysBelow, "ReliefDestroysBelow", 7},
    {Mutant::kSoonestLeavesFirst, "SoonestLeavesFirst", 7},
    {Mutant::kRunningDestroyed, "RunningDestroyed", 7},
    {Mutant::kGraphChangesMissed, "GraphChangesMissed", 7},
    {Mutant::kFailedLoadForgotten, "FailedLoadForgotten", 8},
    {Mutant::kPendingSetNeverRetried, "PendingSetNeverRetried", 8},
    {Mutant::kGoingNeverReturned, "GoingNeverReturned", 8},
    {Mutant::kBusyNotAskedAgain, "BusyNotAskedAgain", 8},
    {Mutant::kOldBlobAdopted, "OldBlobAdopted", 9},
    {Mutant::kTombstoneForgotten, "TombstoneForgotten", 9},
    {Mutant::kPartialGroupLost, "PartialGroupLost", 9},
    {Mutant::kDeadlineUntold, "DeadlineUntold", 9},
    {Mutant::kLostRangeTrusted, "LostRangeTrusted", 9},
    {Mutant::kGoneErasePending, "GoneErasePending", 9},
    {Mutant::kDiskEntriesUncounted, "DiskEntriesUncounted", 1},
};
static_assert(std::size(kKnown) == static_cast<std::size_t>(kFirstIndexMutant) -
                                       static_cast<std::size_t>(kFirstTierMutant),
              "every mutant of several tiers has a name and a line");

const Known* Find(Mutant mutant) {
  for (const Known& known : kKnown) {
    if (known.mutant == mutant) return &known;
  }
  return nullptr;
}

}  // namespace

std::string_view Name(Mutant mutant) {
  const Known* const known = Find(mutant);
  return known == nullptr ? "" : known->name;
}

int InvariantOf(Mutant mutant) {
  const Known* const known = Find(mutant);
  return known == nullptr ? 0 : known->invariant;
}

sim::RunResult RunSeeds(const sim::RunOptions& options) {
  return sim::RunSeeds(options, [](std::uint64_t seed, std::uint64_t events, sim::Coverage*,
                                   const std::function<void(const sim::Verdict&)>& told) {
    World::Options one;
    one.seed = seed;
    one.events = events;
    one.told = told;
    auto world = std::make_unique<World>(one);
    const sim::Outcome outcome = world->Run();
    // Destroying a broken world would only break more.
    if (outcome.failed) (void)world.release();
    return outcome;
  });
}

bool RunOne(std::uint64_t seed, std::uint64_t events, Mutant mutant, bool verbose,
            sim::Failure* failure, std::uint64_t* fingerprint) {
  ActiveMutant() = mutant;
  World::Options options;
  options.seed = seed;
  options.events = events;
  options.verbose = verbose;
  auto world = std::make_unique<World>(options);
  const sim::Outcome outcome = world->Run();
  ActiveMutant() = Mutant::kNone;
  *fingerprint = outcome.fingerprint;
  if (!outcome.failed) return true;
  const sim::Verdict& verdict = world->verdict();
  *failure = {seed, verdict.event, verdict.invariant(), verdict.what()};
  (void)world.release();
  return false;
}

}  // namespace spillway::tiersim
