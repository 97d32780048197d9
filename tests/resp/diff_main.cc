// SPDX-License-Identifier: Apache-2.0
// resp_diff: sends the same random commands to Redis 7 and to spillwayd and compares the
// replies byte for byte. What may differ, and why, is listed in docs/reference/resp.md;
// everything else is a bug.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "resp/daemon.h"
#include "resp/diff_config.h"
#include "resp/diff_pair.h"

namespace spillway::resp {
namespace {

constexpr int kDifferencesShown = 20;

constexpr char kHelp[] =
    R"(resp_diff --spillwayd PATH [--mode plain|tight|emergency|all] [--commands 300000]
          [--round 100000] [--seed N] [--redis redis-server]

Sends the same random commands to Redis and to spillwayd, and compares the replies byte for
byte. plain: memory holds everything. tight: it holds a few of the values, and the disk the
others. emergency: the device takes nothing, so that every write goes below it and every read
comes from there. all: each of them, with so many commands.

Each --round commands have a configuration of their own, drawn from the seed and printed:
memory, tiers, levels, value sizes, write-back, on_blocked, io threads, clients. Several
clients take turns, so that the order of their commands is known, or have databases of their
own and send at once.

What may differ:
  PTTL, PEXPIRETIME      by as long as the batches took that set and ask for the deadline: each
                         server counts from when it gets a command. Deadlines that are given as
                         a time (PXAT, PEXPIREAT) must be equal.
  TTL, EXPIRETIME        by the second that this may round to
  KEYS, SCAN             the order
  RANDOMKEY, CLIENT ID   which
  HELLO                  the connection's number
What else differs on purpose is not sent; docs/reference/resp.md lists it.

Exit status 0: no difference; 1: differences; 2: it could not run; 77: there is no Redis here.
)";

// Frames that make no sense, one connection each: replies and end must agree.
const char* const kFrames[] = {
    "*1\r\n$4\r\nPING\r\n*x\r\n",
    "*-1\r\n*1\r\n$4\r\nPING\r\n",
    "*0\r\n*1\r\n$4\r\nPING\r\n",
    "\r\n\r\nPING\r\n",
    "*1\r\n$-1\r\n",
    "*1\r\n$x\r\n",
    "*2\r\nfoo\r\n",
    "*1\r\n:3\r\n",
    "*1\r\n$999999999999\r\n",
    "*99999999999\r\n",
    "*2147483648\r\n",
    "PING\r\nECHO \"a\\x41\\n b\"\r\nECHO 'it\\'s'\r\n",
    "ECHO \"unbalanced\r\n",
    "ECHO \"a\"b\r\n",
    "SET inline value\r\nGET inline\r\nDEL inline\r\n",
    "GET\r\n",
    "QUIT\r\nPING\r\n",
    "*1\r\n$4\r\nQUIT\r\n*1\r\n$4\r\nPING\r\n",
    "POST / x\r\nHost: x\r\n\r\n",
    "GET / x\r\nHost: x\r\n\r\n",
    "PING\nPING\n",
    "*1\r\n$4\r\nPINGXX*1\r\n$4\r\nPING\r\n",
    "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n",
    "* 1\r\n",
    "*+1\r\n",
    "*01\r\n",
    "*1\r\n$04\r\nPING\r\n",
    "  PING  \r\n\tPING\r\n",
};

int CompareFrames(const std::string& theirs, const std::string& ours) {
  int differ = 0;
  std::vector<std::string> frames(std::begin(kFrames), std::end(kFrames));
  frames.push_back(std::string(70'000, 'a'));
  frames.push_back("*" + std::string(70'000, '1'));
  frames.push_back("*1\r\n$" + std::string(70'000, '1'));
  for (const std::string& frame : frames) {
    std::string replies[2];
    for (int i = 0; i < 2; ++i) {
      Client client(i == 0 ? theirs : ours);
      client.Send(frame);
      // Where the connection is not closed for the frame, this ends it.
      shutdown(client.fd(), SHUT_WR);
      replies[i] = client.Rest();
    }
    if (replies[0] == replies[1]) continue;
    ++differ;
    std::printf("frame %s\n  redis     %s\n  spillwayd %s\n", Shown(frame).c_str(),
                Shown(replies[0]).c_str(), Shown(replies[1]).c_str());
  }
  return differ;
}

struct Settings {
  std::string spillwayd;
  std::string redis = "redis-server";
  std::string mode = "all";
  std::uint64_t commands = 300'000;
  std::uint64_t round = 100'000;
  std::uint64_t seed = std::random_device{}();
};

class Comparison {
 public:
  Comparison(const std::string& theirs, const std::string& ours, const DiffConfig& config,
             std::uint64_t seed)
      : config_(config), random_(seed) {
    for (int i = 0; i < config.clients; ++i) {
      RandomCommands::Options options = config.commands;
      if (config.own_databases) options.database = 2 * i;
      const std::uint64_t own = seed * 100 + static_cast<std::uint64_t>(i);
      pairs_.push_back(std::make_unique<Pair>(theirs, ours, own, options, &spans_));
    }
  }

  int Run(std::uint64_t commands) {
    int shown = kDifferencesShown;
    int differ = 0;
    for (std::uint64_t done = 0; done < commands && shown > 0;) {
      const std::size_t count = 1 + random_() % config_.batch_max;
      std::vector<Pair*> turn;
      if (config_.own_databases) {
        for (const auto& pair : pairs_) turn.push_back(pair.get());
      } else {
        turn.push_back(pairs_[random_() % pairs_.size()].get());
      }
      for (Pair* const pair : turn) {
        if (!pair->Send(count)) return Ended(differ, done);
      }
      for (Pair* const pair : turn) {
        const std::optional<int> more = pair->Compare(&shown);
        if (!more) return Ended(differ, done);
        differ += *more;
        done += count;
      }
    }
    return differ;
  }
  const DeadlineSpans& spans() const { return spans_; }

 private:
  static int Ended(int differ, std::uint64_t done) {
    std::printf("after %llu commands a connection ended, or spillwayd does not answer\n",
                static_cast<unsigned long long>(done));
    return differ + 1;
  }

  const DiffConfig& config_;
  std::mt19937_64 random_;
  DeadlineSpans spans_;
  std::vector<std::unique_ptr<Pair>> pairs_;
};

// A figure of SPILL.STATS.
long StatOf(const std::string& ours, const std::string& name) {
  Client client(ours);
  if (!client.Send(Request({"SPILL.STATS"}))) return -1;
  const std::string reply = client.Reply();
  const std::string head = "$" + std::to_string(name.size()) + "\r\n" + name + "\r\n:";
  const std::size_t at = reply.find(head);
  return at == std::string::npos ? -1 : std::strtol(reply.c_str() + at + head.size(), nullptr, 10);
}

// How many replies differ; empty: a server did not start.
std::optional<int> RunRound(Mode mode, const Settings& settings, std::uint64_t seed,
                            std::uint64_t commands) {
  const DiffConfig config = DiffConfig::Draw(mode, seed);
  const std::string name(Name(mode));
  std::printf("%s, seed %llu: %s\n", name.c_str(), static_cast<unsigned long long>(seed),
              config.Told().c_str());
  std::fflush(stdout);
  char folder[] = "/tmp/resp-diff-XXXXXX";
  if (mkdtemp(folder) == nullptr) return {};
  const std::string dir = folder;
  int differ = 0;
  {
    const std::string theirs = dir + "/redis.sock";
    const std::string ours = dir + "/spillway.sock";
    Daemon one({settings.redis, "--port", "0", "--unixsocket", theirs, "--save", "", "--dir", dir},
               theirs);
    const std::string file = dir + "/spillway.toml";
    std::ofstream(file) << config.Settings(dir);
    Daemon two({settings.spillwayd, "--config", file, "--socket", ours}, ours);
    if (!Client(theirs).connected() || !Client(ours).connected()) {
      std::printf("a server did not start\n");
      return {};
    }
    const auto began = std::chrono::steady_clock::now();  // real world: how long it took
    differ = CompareFrames(theirs, ours);
    Comparison comparison(theirs, ours, config, seed);
    differ += comparison.Run(commands);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    std::printf(
        "  %llu commands, %d differences; %ld MiB on disk, %ld read from there; deadlines up to "
        "%ld ms apart, where batches took %ld; %.1f s\n",
        static_cast<unsigned long long>(commands), differ, StatOf(ours, "disk_bytes") / (1 << 20),
        StatOf(ours, "bytes_up") / (1 << 20), comparison.spans().most_met,
        comparison.spans().most_tolerated, took.count());
    std::fflush(stdout);
  }
  std::filesystem::remove_all(dir);
  return differ;
}

// Whether there was no difference; 2: a server did not start.
int RunMode(Mode mode, const Settings& settings) {
  std::uint64_t differ = 0;
  std::uint64_t seed = settings.seed;
  for (std::uint64_t done = 0; done < settings.commands; done += settings.round) {
    const std::uint64_t commands = std::min(settings.round, settings.commands - done);
    const std::optional<int> more = RunRound(mode, settings, seed, commands);
    if (!more) return 2;
    if (*more > 0) {
      std::printf("again: resp_diff --mode %s --seed %llu --commands %llu\n", Name(mode).data(),
                  static_cast<unsigned long long>(seed), static_cast<unsigned long long>(commands));
    }
    differ += static_cast<std::uint64_t>(*more);
    ++seed;
  }
  std::printf("%s: %llu commands in %llu configurations from seed %llu on: %llu differences\n",
              Name(mode).data(), static_cast<unsigned long long>(settings.commands),
              static_cast<unsigned long long>(seed - settings.seed),
              static_cast<unsigned long long>(settings.seed),
              static_cast<unsigned long long>(differ));
  return differ == 0 ? 0 : 1;
}

int Main(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view flag = argv[i];
    if (flag == "--spillwayd") settings.spillwayd = argv[i + 1];
    if (flag == "--redis") settings.redis = argv[i + 1];
    if (flag == "--mode") settings.mode = argv[i + 1];
    if (flag == "--commands") settings.commands = std::strtoull(argv[i + 1], nullptr, 10);
    if (flag == "--round") settings.round = std::strtoull(argv[i + 1], nullptr, 10);
    if (flag == "--seed") settings.seed = std::strtoull(argv[i + 1], nullptr, 10);
  }
  if (settings.spillwayd.empty() || settings.round == 0) {
    std::printf("%s", kHelp);
    return argc == 2 && std::string_view(argv[1]) == "--help" ? 0 : 2;
  }
  if (std::system((settings.redis + " --version > /dev/null 2>&1").c_str()) != 0) {
    std::printf("skipped: there is no %s here\n", settings.redis.c_str());
    return 77;
  }
  bool any = false;
  int result = 0;
  for (const Mode mode : kModes) {
    if (settings.mode != "all" && settings.mode != Name(mode)) continue;
    any = true;
    result = std::max(result, RunMode(mode, settings));
  }
  if (any) return result;
  std::printf("--mode %s: there is plain, tight, emergency and all\n", settings.mode.c_str());
  return 2;
}

}  // namespace
}  // namespace spillway::resp

int main(int argc, char** argv) { return spillway::resp::Main(argc, argv); }
