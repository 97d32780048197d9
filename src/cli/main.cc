// SPDX-License-Identifier: Apache-2.0
// spillway: one program with several commands.
#include <algorithm>
#include <array>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/nearest.h"
#include "base/printable.h"
#include "cli/ask_daemon.h"
#include "cli/demo.h"
#include "cli/llama_slots.h"
#include "cli/probe.h"
#include "cli/replay.h"
#include "cli/room.h"
#include "cli/run.h"
#include "cli/selftest.h"
#include "cli/simulate.h"
#include "cli/squeeze.h"
#include "cli/top.h"
#include "spillway/version.h"

namespace {

struct Command {
  std::string_view name;
  std::string_view what;
  int (*run)(int argc, char** argv);
};

constexpr std::array kCommands = {
    Command{"demo", "is a program of its own: python3 examples/demo", spillway::RunDemo},
    Command{"explain", "where a key of a running spillwayd is, or why it was evicted",
            spillway::RunExplain},
    Command{"llama-slots", "llama-server with its contexts in spillwayd: a Python program",
            spillway::RunLlamaSlots},
    Command{"probe", "the pressure sources of this machine", spillway::RunProbe},
    Command{"replay", "a trace of requests through caches of several sizes and orders",
            spillway::RunReplay},
    Command{"room", "asks for memory, runs a program, holds the room for its life",
            spillway::RunRoom},
    Command{"run", "runs a program whose failing GPU allocations ask the caches and try again",
            spillway::RunRun},
    Command{"selftest", "tests the GPUs of this machine and their drivers", spillway::RunSelftest},
    Command{"simulate", "a scenario on a virtual clock, decision by decision",
            spillway::RunSimulate},
    Command{"squeeze", "a neighbour that takes memory of a GPU or card and frees it again",
            spillway::RunSqueeze},
    Command{"stats", "what a running spillwayd holds and did", spillway::RunStats},
    Command{"top", "a running spillwayd, live; without one, this machine's memory",
            spillway::RunTop},
};

void PrintHelp(std::FILE* to) {
  fmt::print(to,
             "spillway {}: lends idle GPU memory to agents' contexts and gives it back\n\n"
             "usage: spillway COMMAND [OPTIONS]      spillway help COMMAND\n\n",
             SPILLWAY_VERSION);
  for (const Command& command : kCommands)
    fmt::print(to, "  {:<12} {}\n", command.name, command.what);
  fmt::print(to, "\n  --version  print the version\n  --help     this page\n");
}

}  // namespace

int main(int argc, char** argv) {
  std::string_view name = argc > 1 ? argv[1] : "";
  // `help COMMAND` is `COMMAND --help`.
  std::string help = "--help";
  std::array<char*, 3> help_of{};
  if (name == "help" && argc > 2) {
    name = argv[2];
    help_of = {argv[2], help.data(), nullptr};
    argv = help_of.data() - 1;
    argc = 3;
  }
  if (name == "--version") {
    fmt::print("spillway {}\n", SPILLWAY_VERSION);
    return 0;
  }
  if (name == "--help" || name == "-h" || name == "help") {
    PrintHelp(stdout);
    return 0;
  }
  for (const Command& command : kCommands) {
    // The command gets its own name as argv[0].
    if (command.name == name) return command.run(argc - 1, argv + 1);
  }
  if (name.empty()) {
    fmt::print(stderr, "spillway: no command given\n\n");
  } else {
    std::array<std::string_view, kCommands.size()> names;
    std::ranges::transform(kCommands, names.begin(), &Command::name);
    fmt::print(stderr, "spillway: '{}' is not a command{}\n\n", spillway::Printable(name),
               spillway::DidYouMean(name, names));
  }
  PrintHelp(stderr);
  return 2;
}
