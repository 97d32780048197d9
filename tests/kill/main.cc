// SPDX-License-Identifier: Apache-2.0
// kill_loop: a cache on three tiers is killed (SIGKILL) under load again and again;
// each time the next process verifies every key against what is known of it.
// `make kill-loop N=1000`.
//
//   kill_loop [--kills N] [--keys K] [--seed S] [--per-life L] [--entries E] [--dir D]
//   kill_loop --restart [--entries E] [--dir D]
//
// What can be known after a kill: an answered write is final; one in flight may be seen
// or not. A value that the cache reported as copied to disk, and not as dropped or
// destroyed there since, must be there, since a kill loses no write(2). Any other value
// may be missing, but never wrong and never older than an answered one.
#include <signal.h>
#include <sys/poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "kill/child.h"
#include "kill/expected.h"
#include "kill/restart.h"

namespace spillway::kill {
namespace {

// A child that is not ready by then hangs.
constexpr int kReadyWithinMs = 60'000;
constexpr double kRestartMsMax = 1000;

struct Settings {
  std::uint64_t kills = 20;
  std::uint64_t keys = 2000;
  std::uint64_t seed = 1;
  std::uint64_t per_life = 25;  // Kills before the folder starts empty again.
  std::uint64_t entries = 100'000;
  std::string dir;
  bool only_restart = false;
};

std::optional<Settings> ReadArguments(int argc, char** argv) {
  Settings settings;
  const auto number = [](std::string_view text, std::uint64_t* to) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *to);
    return error == std::errc() && end == text.data() + text.size();
  };
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--restart") {
      settings.only_restart = true;
      continue;
    }
    const std::string_view value = ++i < argc ? argv[i] : "";
    bool known = false;
    if (name == "--kills") known = number(value, &settings.kills);
    if (name == "--keys") known = number(value, &settings.keys) && settings.keys >= 2;
    if (name == "--seed") known = number(value, &settings.seed);
    if (name == "--per-life") known = number(value, &settings.per_life) && settings.per_life > 0;
    if (name == "--entries") known = number(value, &settings.entries);
    if (name == "--dir" && !value.empty()) {
      settings.dir = value;
      known = true;
    }
    if (known) continue;
    fmt::print(stderr, "kill_loop: {} '{}' is not understood\n", name, value);
    return std::nullopt;
  }
  return settings;
}

class Scratch {
 public:
  explicit Scratch(const std::string& in) {
    const std::filesystem::path base =
        in.empty() ? std::filesystem::temp_directory_path() : std::filesystem::path(in);
    std::string pattern = (base / "spillway-kill-XXXXXX").string();
    if (::mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~Scratch() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// One child from fork to kill. False: it did not become ready, or ended by itself.
bool KillOne(Expected* expected, const ChildSettings& settings, bool while_opening, int after_ms) {
  std::array<int, 2> pipe{};
  if (::pipe(pipe.data()) != 0) return false;
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(pipe[0]);
    RunChild(expected, settings, pipe[1]);
  }
  ::close(pipe[1]);
  bool good = child > 0;
  if (good && !while_opening) {
    pollfd wait{pipe[0], POLLIN, 0};
    char byte = 0;
    good = ::poll(&wait, 1, kReadyWithinMs) == 1 && ::read(pipe[0], &byte, 1) == 1;
  }
  if (good) ::usleep(static_cast<useconds_t>(after_ms) * 1000);
  int status = 0;
  // Not killed by us: an assertion, or a sanitizer.
  if (child > 0 && ::waitpid(child, &status, WNOHANG) == child) {
    fmt::print(stderr, "kill_loop: the child ended by itself, status {:#x}\n", status);
    good = false;
  } else if (child > 0) {
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
      fmt::print(stderr, "kill_loop: the child ended by itself, status {:#x}\n", status);
      good = false;
    }
  }
  if (!good) fmt::print(stderr, "kill_loop: a child was not ready in time, or ended\n");
  ::close(pipe[0]);
  return good;
}

double PercentileMs(std::vector<std::uint64_t> ns, double share) {
  if (ns.empty()) return 0;
  const auto at = static_cast<std::ptrdiff_t>(share * static_cast<double>(ns.size() - 1));
  std::nth_element(ns.begin(), ns.begin() + at, ns.end());
  return static_cast<double>(ns[static_cast<std::size_t>(at)]) / 1e6;
}

void PrintSummary(Counts& counts, std::uint64_t kills, std::uint64_t opening,
                  const std::vector<std::uint64_t>& first, const std::vector<std::uint64_t>& all) {
  fmt::print("kills              {} ({} while opening or verifying)\n", kills, opening);
  fmt::print("load               {} sets ({} refused), {} gets, {} erases; {} copies to disk\n",
             counts.sets.load(), counts.sets_refused.load(), counts.gets.load(),
             counts.erases.load(), counts.backed.load());
  fmt::print("keys verified      {}, of which {} had to be there\n", counts.keys.load(),
             counts.must_be_there.load());
  fmt::print("  hits             {}\n", counts.hits.load());
  fmt::print("  never set        {}\n", counts.misses_never_set.load());
  fmt::print("  write under way  {}\n", counts.misses_pending.load());
  fmt::print("  not yet on disk  {}\n", counts.misses_not_on_disk.load());
  fmt::print("  had left before  {}\n", counts.misses_left.load());
  fmt::print("wrong bytes        {}\n", counts.wrong_bytes.load());
  fmt::print("stale versions     {}\n", counts.stale.load());
  fmt::print("unexplained        {}\n", counts.unexplained.load());
  fmt::print("errors             {}\n", counts.errors.load());
  fmt::print(
      "restart            first hit p50 {:.1f} ms, max {:.1f} ms; all verified p50 {:.0f} ms\n",
      PercentileMs(first, 0.5), PercentileMs(first, 1), PercentileMs(all, 0.5));
}

bool RunKills(const Settings& settings, const Scratch& scratch) {
  Expected expected(settings.keys);
  Counts& counts = expected.counts();
  std::mt19937_64 random(settings.seed);
  std::vector<std::uint64_t> first;
  std::vector<std::uint64_t> all;
  std::uint64_t opening = 0;
  ChildSettings child;
  bool good = true;
  for (std::uint64_t kill = 0; kill < settings.kills && good; ++kill) {
    const std::uint64_t life = kill / settings.per_life;
    if (kill % settings.per_life == 0) {
      std::error_code ignored;
      if (!child.dir.empty()) std::filesystem::remove_all(child.dir, ignored);
      expected.Forget();
      child.dir = (scratch.path() / fmt::format("life-{}", life)).string();
      // Every other disk is too small for all keys.
      child.disk = life % 2 == 0 ? 512 * kMiB : 64 * kMiB;
    }
    child.seed = random();
    // One in eight is killed while it opens; if it gets further, that is fine, too.
    const bool while_opening = random() % 8 == 0;
    const int after_ms = static_cast<int>(while_opening ? random() % 60 : 5 + random() % 296);
    counts.first_get_ns = counts.verified_ns = 0;
    good = KillOne(&expected, child, while_opening, after_ms);
    opening += while_opening ? 1 : 0;
    if (counts.first_get_ns != 0) first.push_back(counts.first_get_ns);
    if (counts.verified_ns != 0) all.push_back(counts.verified_ns);
    if ((kill + 1) % 100 == 0) fmt::print("{} kills\n", kill + 1);
    std::fflush(stdout);
  }
  // The last child's work is verified, too.
  if (good) good = KillOne(&expected, child, false, 5);
  PrintSummary(counts, settings.kills + (good ? 1 : 0), opening, first, all);
  return good && counts.wrong_bytes == 0 && counts.stale == 0 && counts.unexplained == 0 &&
         counts.errors == 0;
}

bool RunRestart(const Settings& settings, const Scratch& scratch) {
  const auto times = MeasureRestart((scratch.path() / "restart").string(), settings.entries);
  if (!times) return false;
  fmt::print(
      "restart of {} entries ({} found, written in {:.1f} s): open {:.1f} ms, first get {:.1f} ms, "
      "any get {:.1f} ms\n",
      settings.entries, times->found, times->fill_s, times->open_ms, times->first_get_ms,
      times->last_get_ms);
  if (times->first_get_ms <= kRestartMsMax) return true;
  fmt::print("restart took longer than {} ms\n", kRestartMsMax);
  return false;
}

int Main(int argc, char** argv) {
  const std::optional<Settings> settings = ReadArguments(argc, argv);
  if (!settings) return 2;
  const Scratch scratch(settings->dir);
  if (scratch.path().empty()) {
    fmt::print(stderr, "kill_loop: no scratch folder\n");
    return 2;
  }
  fmt::print("kill_loop: seed {}\n", settings->seed);
  std::fflush(stdout);
  bool good = true;
  if (!settings->only_restart) good = RunKills(*settings, scratch);
  std::fflush(stdout);
  if (settings->entries > 0) good = RunRestart(*settings, scratch) && good;
  fmt::print("kill_loop: {}\n", good ? "passed" : "FAILED");
  return good ? 0 : 1;
}

}  // namespace
}  // namespace spillway::kill

int main(int argc, char** argv) { return spillway::kill::Main(argc, argv); }
