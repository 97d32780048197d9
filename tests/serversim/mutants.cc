// SPDX-License-Identifier: Apache-2.0
#include "serversim/mutants.h"

#include <iterator>
#include <memory>

#include "serversim/world.h"

namespace spillway::serversim {

namespace {

constexpr PlantedBug kBugs[] = {
    // Acknowledged writes after a crash.
    {Mutant::kReplyBeforeFlush, "ReplyBeforeFlush", "after a crash nothing older", 150},
    {Mutant::kStalePendingAnswers, "StalePendingAnswers", "what was acknowledged was written", 100},
    {Mutant::kAnswersWhileLoading, "AnswersWhileLoading", "a key on disk is there from the start",
     100},
    // Databases.
    {Mutant::kFlushDbClearsAll, "FlushDbClearsAll", "FLUSHDB empties one database", 50},
    {Mutant::kFlushDbStopsEarly, "FlushDbStopsEarly", "FLUSHDB empties its database", 100},
    {Mutant::kDbSizeForgetsDisk, "DbSizeForgetsDisk", "DBSIZE counts what is on disk", 50},
    // Transactions.
    {Mutant::kExecHeaderTakenBack, "ExecHeaderTakenBack", "each reply to its request", 100},
    // Commands that wait.
    {Mutant::kWaitRepeatsCommand, "WaitRepeatsCommand", "nothing is done twice", 150},
    {Mutant::kWaitHoldsNoKeys, "WaitHoldsNoKeys", "a command is one step", 600},
    {Mutant::kWaitOutlivesClient, "WaitOutlivesClient", "a wait ends with its client", 400},
    {Mutant::kWaitUnbounded, "WaitUnbounded", "every wait has a bound", 900},
    {Mutant::kExecWaitsAnew, "ExecWaitsAnew", "an EXEC's waits in vain have a bound together", 900},
    {Mutant::kGoneLeavesHalf, "GoneLeavesHalf", "of what has begun to write all is written", 600},
    // Deadlines of values on disk.
    {Mutant::kDeadlineChangeDropped, "DeadlineChangeDropped", "EXPIRE holds wherever the value is",
     100},
    {Mutant::kDeadlineUntold, "DeadlineUntold", "after a crash no older deadline", 150},
    // Stops.
    {Mutant::kBusyNotAskedAgain, "BusyNotAskedAgain", "a stop writes what only memory has", 600},
    {Mutant::kPartialGroupLost, "PartialGroupLost", "a stop writes what only memory has", 50},
    // A damaged journal.
    {Mutant::kDamagedRecordEndsReplay, "DamagedRecordEndsReplay", "a flipped bit loses nothing",
     300},
    // Bounds.
    {Mutant::kExecIgnoresOutputBound, "ExecIgnoresOutputBound", "replies have a bound", 200},
    {Mutant::kUploadHoldsRoom, "UploadHoldsRoom", "room that is not filled goes to others", 600},
    {Mutant::kTrickleHoldsRoom, "TrickleHoldsRoom", "room that is filled too slowly does, too",
     600},
    {Mutant::kRoomOfOldValue, "RoomOfOldValue", "an old value stays until its successor is there",
     600},
    // Replies.
    {Mutant::kGetExOffByOneMs, "GetExOffByOneMs", "deadlines are exact", 50},
    {Mutant::kKeyspaceExpiresZero, "KeyspaceExpiresZero", "INFO keyspace counts deadlines", 50},
    {Mutant::kRandomKeyOtherDb, "RandomKeyOtherDb", "RANDOMKEY is of the database", 100},
};
static_assert(std::size(kBugs) == static_cast<std::size_t>(Mutant::kCount) -
                                      static_cast<std::size_t>(kFirstServerMutant) + 3,
              "each planted bug of the daemon has a line; three more are the engine's");

}  // namespace

std::span<const PlantedBug> PlantedBugs() { return kBugs; }

std::string_view Name(Mutant mutant) {
  for (const PlantedBug& bug : kBugs) {
    if (bug.mutant == mutant) return bug.name;
  }
  return "";
}

sim::RunResult RunSeeds(const sim::RunOptions& options, const std::set<std::string>& without) {
  return sim::RunSeeds(options, [&without](std::uint64_t seed, std::uint64_t events, sim::Coverage*,
                                           const std::function<void(const sim::Verdict&)>& told) {
    World::Options one;
    one.seed = seed;
    one.events = events;
    one.without = without;
    one.told = told;
    auto world = std::make_unique<World>(one);
    const sim::Outcome outcome = world->Run();
    // Taking a broken world apart would only break more.
    if (outcome.failed) (void)world.release();
    return outcome;
  });
}

bool RunOne(std::uint64_t seed, std::uint64_t events, Mutant mutant, bool verbose,
            const std::set<std::string>& without, sim::Failure* failure,
            std::uint64_t* fingerprint) {
  ActiveMutant() = mutant;
  World::Options options;
  options.seed = seed;
  options.events = events;
  options.verbose = verbose;
  options.without = without;
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

}  // namespace spillway::serversim
