// SPDX-License-Identifier: Apache-2.0
// sweep: a scripted run of the whole cache, once for every file call, every allocation
// and every chunk of memory that can fail in it, once or for good. Each run is a
// process of its own: a crash is a finding and does not end the sweep.
//
//   sweep [--kind io|full|new|map] [--runs N] [--seed S] [--dir D]
//   sweep --kind K --number N [--for-good]      one run, here
//
// Without --runs every number is run; with it that many of each kind, spread
// evenly from a seeded beginning.
#include <execinfo.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "sweep/failing_new.h"
#include "sweep/script.h"

namespace spillway::sweep {
namespace {

// Longer than all waits of the script together.
constexpr auto kHungAfter = std::chrono::seconds(120);

struct KindName {
  std::string_view name;
  Kind kind;
  std::string_view what;
};
constexpr KindName kKinds[] = {{"io", Kind::kFileIo, "file calls, EIO"},
                               {"full", Kind::kFileFull, "file calls, ENOSPC"},
                               {"map", Kind::kMap, "chunks of memory"},
                               {"new", Kind::kNew, "allocations"}};

struct Settings {
  std::optional<Kind> kind;
  std::uint64_t runs = 0;
  std::uint64_t seed = 1;
  std::optional<std::uint64_t> number;
  bool for_good = false;
  std::string dir;
};

std::optional<Settings> ReadArguments(int argc, char** argv) {
  Settings settings;
  const auto number = [](std::string_view text, std::uint64_t* to) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *to);
    return error == std::errc() && end == text.data() + text.size();
  };
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--for-good") {
      settings.for_good = true;
      continue;
    }
    const std::string_view value = ++i < argc ? argv[i] : "";
    bool known = false;
    if (name == "--runs") known = number(value, &settings.runs);
    if (name == "--seed") known = number(value, &settings.seed);
    if (name == "--number") known = number(value, &settings.number.emplace());
    if (name == "--dir" && !value.empty()) {
      settings.dir = value;
      known = true;
    }
    for (const KindName& kind : kKinds) {
      if (name != "--kind" || value != kind.name) continue;
      settings.kind = kind.kind;
      known = true;
    }
    if (known) continue;
    fmt::print(stderr, "sweep: {} '{}' is not understood\n", name, value);
    return std::nullopt;
  }
  return settings;
}

// An older value that came back is accepted only if its writer was told.
bool IsGood(const Verdict& verdict) {
  return verdict.wrong + verdict.stale + verdict.left + verdict.lost + verdict.escaped == 0;
}

// Runs in processes of their own, several at a time.
class Sweep {
 public:
  explicit Sweep(std::filesystem::path scratch) : scratch_(std::move(scratch)) {}

  struct Tally {
    std::uint64_t runs = 0;
    std::uint64_t crashed = 0;
    std::uint64_t hung = 0;
    Verdict sum;
  };

  void Start(const Fault& fault, Tally* tally) {
    // They mostly wait: for a disk, a poll, a deadline.
    const std::size_t most = 3 * std::max(2U, std::thread::hardware_concurrency());
    while (under_way_.size() >= most) Await();
    One one;
    one.fault = fault;
    one.tally = tally;
    one.dir = scratch_ / fmt::format("run-{}", started_++);
    one.verdict = static_cast<Verdict*>(::mmap(nullptr, sizeof(Verdict), PROT_READ | PROT_WRITE,
                                               MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    one.since = std::chrono::steady_clock::now();
    const pid_t child = ::fork();
    if (child == 0) {
      *one.verdict = RunScript(one.dir.string(), fault);
      std::exit(0);  // Runs the sanitizers' checks at exit.
    }
    under_way_.emplace(child, one);
  }
  void AwaitAll() {
    while (!under_way_.empty()) Await();
  }

 private:
  struct One {
    Fault fault;
    Tally* tally = nullptr;
    std::filesystem::path dir;
    Verdict* verdict = nullptr;
    std::chrono::steady_clock::time_point since;
    bool hung = false;
  };

  void Await() {
    int status = 0;
    const pid_t child = ::waitpid(-1, &status, WNOHANG);
    if (child <= 0) {
      for (auto& [pid, one] : under_way_) {
        if (one.hung || std::chrono::steady_clock::now() - one.since < kHungAfter) continue;
        one.hung = true;
        ::kill(pid, SIGKILL);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return;
    }
    const One one = under_way_.at(child);
    under_way_.erase(child);
    Judge(one, status);
    ::munmap(one.verdict, sizeof(Verdict));
    std::error_code ignored;
    std::filesystem::remove_all(one.dir, ignored);
  }

  static void Judge(const One& one, int status) {
    Tally& tally = *one.tally;
    ++tally.runs;
    const Verdict& verdict = *one.verdict;
    std::string what;
    if (one.hung) {
      ++tally.hung;
      what = "hung";
    } else if (status != 0) {
      ++tally.crashed;
      what = WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                                 : fmt::format("exit {}", WEXITSTATUS(status));
    } else if (!IsGood(verdict)) {
      what = fmt::format("wrong {}, stale {}, left {}, lost {}, escaped {}", verdict.wrong,
                         verdict.stale, verdict.left, verdict.lost, verdict.escaped);
    }
    tally.sum.wrong += verdict.wrong;
    tally.sum.stale_told += verdict.stale_told;
    tally.sum.stale += verdict.stale;
    tally.sum.left += verdict.left;
    tally.sum.lost += verdict.lost;
    tally.sum.escaped += verdict.escaped;
    tally.sum.thrown += verdict.thrown;
    tally.sum.found += verdict.found;
    if (what.empty()) return;
    std::string_view kind;
    for (const KindName& each : kKinds) kind = each.kind == one.fault.kind ? each.name : kind;
    fmt::print("  --kind {} --number {}{}: {}\n", kind, one.fault.number,
               one.fault.for_good ? " --for-good" : "", what);
    std::fflush(stdout);
  }

  const std::filesystem::path scratch_;
  std::uint64_t started_ = 0;
  std::map<pid_t, One> under_way_;
};

bool IsGood(const Sweep::Tally& tally) {
  return tally.crashed + tally.hung == 0 && IsGood(tally.sum);
}

// How many calls of that kind a run without faults makes.
std::uint64_t CallsOf(Kind kind, const std::filesystem::path& scratch) {
  auto* const verdict = static_cast<Verdict*>(
      ::mmap(nullptr, sizeof(Verdict), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const pid_t child = ::fork();
  if (child == 0) {
    *verdict = RunScript((scratch / "count").string(), {kind, ~std::uint64_t{0}, false});
    std::_Exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  std::error_code ignored;
  std::filesystem::remove_all(scratch / "count", ignored);
  return status == 0 ? verdict->calls : 0;
}

int Main(int argc, char** argv) {
  const std::optional<Settings> settings = ReadArguments(argc, argv);
  if (!settings) return 2;
  std::string pattern = ((settings->dir.empty() ? std::filesystem::temp_directory_path()
                                                : std::filesystem::path(settings->dir)) /
                         "spillway-sweep-XXXXXX")
                            .string();
  if (::mkdtemp(pattern.data()) == nullptr) return 2;
  const std::filesystem::path scratch = pattern;
  bool good = true;
  if (settings->number) {
    ShowFirstRefused();
    const Verdict verdict =
        RunScript((scratch / "one").string(),
                  {settings->kind.value_or(Kind::kNew), *settings->number, settings->for_good});
    fmt::print(
        "wrong {}, stale {} not told and {} told, left {}, lost {}, escaped {}, thrown {}, found "
        "{}; "
        "{} calls\n",
        verdict.wrong, verdict.stale, verdict.stale_told, verdict.left, verdict.lost,
        verdict.escaped, verdict.thrown, verdict.found, verdict.calls);
    good = IsGood(verdict);
  } else {
    Sweep sweep(scratch);
    for (const KindName& kind : kKinds) {
      if (settings->kind && *settings->kind != kind.kind) continue;
      // Threads run in any order: take the most of a few runs.
      std::uint64_t calls = 0;
      for (int count = 0; count < 4; ++count) {
        calls = std::max(calls, CallsOf(kind.kind, scratch));
      }
      if (calls == 0) {
        fmt::print("sweep: the script does not get through even if nothing fails\n");
        good = false;
        continue;
      }
      for (const bool for_good : {false, true}) {
        Sweep::Tally tally;
        const std::uint64_t step =
            settings->runs == 0 ? 1 : std::max<std::uint64_t>(1, calls / settings->runs);
        for (std::uint64_t at = settings->seed % step; at < calls + calls / 20; at += step) {
          sweep.Start({kind.kind, at, for_good}, &tally);
        }
        sweep.AwaitAll();
        fmt::print(
            "{:20} {}: {} of {} in {} runs: {} crashes, {} hung, {} wrong, {} left behind, {} "
            "lost, {} escaped, {} stale and not told; {} stale and told, {} thrown, {} "
            "values found in the end\n",
            kind.what, for_good ? "for good" : "once    ", std::min(tally.runs, calls), calls,
            tally.runs, tally.crashed, tally.hung, tally.sum.wrong, tally.sum.left, tally.sum.lost,
            tally.sum.escaped, tally.sum.stale, tally.sum.stale_told, tally.sum.thrown,
            tally.sum.found);
        std::fflush(stdout);
        good = good && IsGood(tally);
      }
    }
  }
  std::error_code ignored;
  std::filesystem::remove_all(scratch, ignored);
  fmt::print("sweep: {}\n", good ? "passed" : "FAILED");
  return good ? 0 : 1;
}

}  // namespace
}  // namespace spillway::sweep

int main(int argc, char** argv) {
  // Prints where it was thrown, for addr2line, without allocating.
  std::set_terminate([] {
    void* frames[40];
    ::backtrace_symbols_fd(frames, ::backtrace(frames, 40), STDERR_FILENO);
    std::abort();
  });
  return spillway::sweep::Main(argc, argv);
}
