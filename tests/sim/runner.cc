// SPDX-License-Identifier: Apache-2.0
#include "sim/runner.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <new>
#include <thread>

#include <fmt/format.h>

#include "sim/world.h"

namespace spillway::sim {

namespace {

constexpr unsigned kJobsMax = 64;
constexpr std::size_t kFailuresMax = 64;
constexpr unsigned kPatienceSeconds = 300;  // For one seed, sanitized, on a busy machine.

// Shared by the processes of one run.
struct Shared {
  struct Report {
    std::uint64_t seed;
    std::uint64_t event;
    int invariant;
    char what[1024];
  };
  std::atomic<std::uint64_t> next{0};
  std::atomic<std::uint64_t> done{0};
  std::atomic<std::uint64_t> events{0};
  std::atomic<std::uint64_t> twice{0};
  std::atomic<std::uint64_t> large{0};
  std::atomic<bool> stop{false};
  std::atomic<std::size_t> failures{0};
  Report reports[kFailuresMax];
  std::atomic<std::uint64_t> running[kJobsMax];  // Seed + 1; 0: none.
  Coverage coverage[kJobsMax];

  // By seed; they follow this in memory.
  std::uint64_t* fingerprints() { return reinterpret_cast<std::uint64_t*>(this + 1); }
};

void Report(Shared* shared, std::uint64_t seed, std::uint64_t event, int invariant,
            std::string_view what) {
  const std::size_t at = shared->failures.fetch_add(1);
  if (at >= kFailuresMax) return;
  Shared::Report& report = shared->reports[at];
  report.seed = seed;
  report.event = event;
  report.invariant = invariant;
  const std::size_t bytes = std::min(what.size(), sizeof report.what - 1);
  std::memcpy(report.what, what.data(), bytes);
  report.what[bytes] = '\0';
}

class Worker {
 public:
  Worker(const RunOptions& options, const Live& live, Shared* shared, unsigned job)
      : options_(options), live_(live), shared_(shared), job_(job) {}

  void Loop() {
    ActiveMutant() = options_.mutant;
    for (;;) {
      const std::uint64_t at = shared_->next.fetch_add(1);
      if (at >= options_.seeds || shared_->stop) break;
      Run(at);
      // One in twenty again, with others in between.
      if (options_.first + at == again_ || !pending_) continue;
      pending_ = false;
      RunAgain();
    }
    if (pending_) RunAgain();
  }

 private:
  bool RunWorld(std::uint64_t seed, Coverage* coverage, Outcome* outcome) {
    shared_->running[job_] = seed + 1;
    alarm(kPatienceSeconds);
    *outcome = live_(seed, options_.events, coverage, [&](const Verdict& verdict) {
      Report(shared_, seed, verdict.event, verdict.invariant(), verdict.what());
    });
    shared_->events += outcome->events;
    shared_->running[job_] = 0;
    return !outcome->failed;
  }

  void Run(std::uint64_t at) {
    const std::uint64_t seed = options_.first + at;
    Outcome outcome;
    const bool ok = RunWorld(seed, &shared_->coverage[job_], &outcome);
    shared_->fingerprints()[at] = outcome.fingerprint;
    ++shared_->done;
    if (outcome.most_live > 1000) ++shared_->large;
    if (!ok && options_.stop_at_failure) shared_->stop = true;
    if (ok && Mix(seed) % 20 == 0) {
      again_ = seed;
      pending_ = true;
    }
  }

  void RunAgain() {
    Outcome outcome;
    if (!RunWorld(again_, nullptr, &outcome)) return;
    ++shared_->twice;
    if (outcome.fingerprint == shared_->fingerprints()[again_ - options_.first]) return;
    Report(shared_, again_, outcome.events, kSameEvents,
           "run a second time in the same process, the seed gave other events");
    if (options_.stop_at_failure) shared_->stop = true;
  }

  const RunOptions& options_;
  const Live& live_;
  Shared* const shared_;
  const unsigned job_;
  std::uint64_t again_ = 0;
  bool pending_ = false;
};

pid_t Start(const RunOptions& options, const Live& live, Shared* shared, unsigned job) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child != 0) return child;
  if (options.quiet) {
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDERR_FILENO);
  }
  Worker(options, live, shared, job).Loop();
  _exit(0);
}

// Waits for a worker; a worker that died has failed in its present seed.
bool EndedWell(Shared* shared, pid_t worker, unsigned job) {
  int status = 0;
  while (waitpid(worker, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
  const std::uint64_t seed = shared->running[job].exchange(0);
  if (seed == 0) shared->stop = true;  // Outside a seed: another worker would die likewise.
  for (std::size_t i = 0; i < std::min<std::size_t>(shared->failures, kFailuresMax); ++i) {
    if (shared->reports[i].seed + 1 == seed) return false;  // It was reported already.
  }
  const bool hung = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
  Report(shared, seed - 1, 0, hung ? kLiveness : 0,
         hung ? "the world stood still"
              : fmt::format("the program stopped itself (signal {})", WTERMSIG(status)));
  ++shared->done;
  return false;
}

}  // namespace

RunResult RunSeeds(const RunOptions& options, const Live& live) {
  const unsigned jobs = std::min<unsigned>(
      kJobsMax,
      options.jobs > 0 ? options.jobs : std::max(1U, std::thread::hardware_concurrency()));
  const std::size_t bytes = sizeof(Shared) + options.seeds * sizeof(std::uint64_t);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* shared = new (memory) Shared();
  const auto begun = std::chrono::steady_clock::now();

  std::vector<pid_t> workers;
  for (unsigned job = 0; job < jobs; ++job) workers.push_back(Start(options, live, shared, job));
  for (unsigned job = 0; job < jobs; ++job) {
    while (!EndedWell(shared, workers[job], job)) {
      if (options.stop_at_failure) shared->stop = true;
      if (shared->stop || shared->failures > kFailuresMax) break;
      workers[job] = Start(options, live, shared, job);
    }
  }

  RunResult result;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  result.seeds = shared->done;
  result.events = shared->events;
  result.twice = shared->twice;
  result.large = shared->large;
  for (std::size_t i = 0; i < std::min<std::size_t>(shared->failures, kFailuresMax); ++i) {
    const Shared::Report& report = shared->reports[i];
    result.failures.push_back({report.seed, report.event, report.invariant, report.what});
  }
  for (unsigned job = 0; job < jobs; ++job) result.coverage.Add(shared->coverage[job]);
  result.fingerprints.assign(shared->fingerprints(), shared->fingerprints() + options.seeds);
  munmap(memory, bytes);
  return result;
}

std::uint64_t DigestOf(const RunResult& result) {
  std::uint64_t digest = 0;
  for (const std::uint64_t fingerprint : result.fingerprints) digest = Mix(digest ^ fingerprint);
  return digest;
}

RunResult RunSeeds(const RunOptions& options) {
  return RunSeeds(options, [](std::uint64_t seed, std::uint64_t events, Coverage* coverage,
                              const std::function<void(const Verdict&)>& told) {
    World::Options one;
    one.seed = seed;
    one.events = events;
    one.coverage = coverage;
    one.told = told;
    auto world = std::make_unique<World>(one);
    const Outcome outcome = world->Run();
    // Destroying a broken world would only break more.
    if (outcome.failed) (void)world.release();
    return outcome;
  });
}

bool RunOne(std::uint64_t seed, std::uint64_t events, Mutant mutant, bool verbose, Failure* failure,
            std::uint64_t* fingerprint, std::size_t* most_live) {
  ActiveMutant() = mutant;
  World::Options options;
  options.seed = seed;
  options.events = events;
  options.verbose = verbose;
  auto world = std::make_unique<World>(options);
  const Outcome outcome = world->Run();
  ActiveMutant() = Mutant::kNone;
  *fingerprint = outcome.fingerprint;
  *most_live = outcome.most_live;
  if (!outcome.failed) return true;
  const Verdict& verdict = world->verdict();
  *failure = {seed, verdict.event, verdict.invariant(), verdict.what()};
  (void)world.release();
  return false;
}

namespace {

struct Known {
  Mutant mutant;
  std::string_view name;
  int invariant;
};

constexpr Known kKnown[] = {
    {Mutant::kReservationLeaked, "ReservationLeaked", 1},
    {Mutant::kCapacityIgnored, "CapacityIgnored", 1},
    {Mutant::kFreedTwiceInAccount, "FreedTwiceInAccount", 1},
    {Mutant::kLedgerOverCommit, "LedgerOverCommit", 1},
    {Mutant::kBudgetForgetsReserved, "BudgetForgetsReserved", 1},
    {Mutant::kEvictsLeased, "EvictsLeased", 2},
    {Mutant::kReplaceFreesLeased, "ReplaceFreesLeased", 2},
    {Mutant::kZombieNeverFreed, "ZombieNeverFreed", 2},
    {Mutant::kServesOldGeneration, "ServesOldGeneration", 3},
    {Mutant::kKeyNotCompared, "KeyNotCompared", 3},
    {Mutant::kRemovalUnlogged, "RemovalUnlogged", 3},
    {Mutant::kRemovalLoggedTwice, "RemovalLoggedTwice", 3},
    {Mutant::kMatchIgnoresGeneration, "MatchIgnoresGeneration", 3},
    {Mutant::kVisibleBeforeCommit, "VisibleBeforeCommit", 4},
    {Mutant::kFailedSetErasesOld, "FailedSetErasesOld", 4},
    {Mutant::kLateCommit, "LateCommit", 4},
    {Mutant::kTornCopy, "TornCopy", 4},
    {Mutant::kChunkLeak, "ChunkLeak", 5},
    {Mutant::kDoubleFreeSlot, "DoubleFreeSlot", 5},
    {Mutant::kPartialMapNotUnwound, "PartialMapNotUnwound", 5},
    {Mutant::kNoDwell, "NoDwell", 6},
    {Mutant::kSkipsOneLevelOnly, "SkipsOneLevelOnly", 6},
    {Mutant::kUnknownIsZero, "UnknownIsZero", 6},
    {Mutant::kEmergencyAdmits, "EmergencyAdmits", 6},
    {Mutant::kUnknownGrows, "UnknownGrows", 6},
    {Mutant::kStaleSampleTrusted, "StaleSampleTrusted", 6},
    {Mutant::kRelaxedEvicts, "RelaxedEvicts", 7},
    {Mutant::kIdleLimitIgnored, "IdleLimitIgnored", 7},
    {Mutant::kEmergencyTakesFresh, "EmergencyTakesFresh", 7},
    {Mutant::kParentBeforeChild, "ParentBeforeChild", 7},
    {Mutant::kOrderReversed, "OrderReversed", 7},
    {Mutant::kReliefOvershoots, "ReliefOvershoots", 7},
    {Mutant::kRoomTakesTooMuch, "RoomTakesTooMuch", 7},
    {Mutant::kReserveIgnored, "ReserveIgnored", 7},
    {Mutant::kUseNotStamped, "UseNotStamped", 7},
    {Mutant::kIdleGraphOrders, "IdleGraphOrders", 7},
    {Mutant::kUnwantedKept, "UnwantedKept", 7},
    {Mutant::kPendingGetForgotten, "PendingGetForgotten", 8},
    {Mutant::kNeverLeavesEmergency, "NeverLeavesEmergency", 8},
    {Mutant::kReaperSleeps, "ReaperSleeps", 8},
    {Mutant::kDeadShareKept, "DeadShareKept", 9},
    {Mutant::kOrderByAddress, "OrderByAddress", 10},
    {Mutant::kGenerationsGoOn, "GenerationsGoOn", 10},
};
static_assert(std::size(kKnown) + 1 == static_cast<std::size_t>(kFirstTierMutant),
              "every mutant of one tier has a name and a line");

const Known* Find(Mutant mutant) {
  for (const Known& known : kKnown) {
    if (known.mutant == mutant) return &known;
  }
  return nullptr;
}

}  // namespace

std::string_view Name(Mutant mutant) {
  const Known* known = Find(mutant);
  return known == nullptr ? "none" : known->name;
}

int InvariantOf(Mutant mutant) {
  const Known* known = Find(mutant);
  return known == nullptr ? 0 : known->invariant;
}

}  // namespace spillway::sim
