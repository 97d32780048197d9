// SPDX-License-Identifier: Apache-2.0
// spillway simulate: runs a scenario on a virtual clock and prints every decision.
#include "cli/simulate.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/arguments.h"
#include "base/errors.h"
#include "base/parse.h"
#include "cache/settings.h"
#include "cli/complain.h"
#include "replay/run_scenario.h"

namespace spillway {
namespace {

constexpr const char* kAbout =
    R"(A scenario on a virtual clock, decision by decision: the real engine, one device
tier, no memory touched. Reads one JSON object a line and prints one for each.)";

constexpr const char* kMore = R"(
Lines:
  {"at":S,"op":"set","key":K,"tokens":N[,"bytes":B,"agent":A,"parent":P]}
  {"at":S,"op":"get","key":K}        {"at":S,"op":"delete","key":K}
  {"at":S,"op":"clear"}              {"at":S,"op":"tick"}
  {"at":S,"op":"pressure","value":0..1|null}
  {"at":S,"op":"order"}
`at` is virtual seconds; it never falls, and without it no time passes. A bad
line ends the run: one line {"error":...,"line":n} on stderr, exit status 2.

Try:
  printf '%s\n' '{"at":0,"op":"set","key":"a","tokens":1000}' \
    '{"at":40,"op":"pressure","value":0.97}' | spillway simulate -

docs/reference/scenario.md has the format, docs/reference/settings.md what
--config may hold.)";

struct Flags {
  std::string file;
  std::string preset = "default";
  bool preset_given = false;
  std::string config;
  std::string capacity;
  std::string policy;
  std::string bytes_per_token = fmt::to_string(Scenario::kDefaultBytesPerToken);
};

std::string MeaningOf(std::string_view name) { return std::string((*FindSetting(name))->meaning); }

void Describe(CLI::App* app, Flags* flags) {
  app->add_option("FILE", flags->file, "the scenario; - reads standard input")
      ->required()
      ->option_text(" ");
  app->add_option("--preset", flags->preset,
                  "default, or seed: the small program Spillway grew from, exactly")
      ->option_text("NAME");
  app->add_option("--config", flags->config, "a TOML file of settings; flags win over it")
      ->option_text("FILE");
  app->add_option("--capacity", flags->capacity,
                  "bytes of the device tier, as in 24GiB; without it 128GiB, preset seed none")
      ->option_text("SIZE");
  app->add_option("--policy", flags->policy, MeaningOf("policy"))->option_text("NAME");
  app->add_option("--bytes-per-token", flags->bytes_per_token,
                  "bytes of an entry whose line gives none, per token; without it 131072")
      ->option_text("SIZE");
  app->footer(kMore);
}

Result<std::string> ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  // An empty file sets failbit; only a missing file is an error.
  if (!file.is_open() || file.bad()) {
    return Bad(fmt::format("can't read '{}': {}", path, std::strerror(errno)));
  }
  return text.str();
}

Result<Bytes> BytesPerToken(const std::string& text) {
  Result<Bytes> bytes = ParseBytes(text);
  if (!bytes) return Bad(fmt::format("--bytes-per-token: {}", bytes.error().message));
  if (*bytes == 0 || *bytes > kGiB) {
    return Bad(fmt::format("--bytes-per-token is {}; it must be from 1 to {}", *bytes, kGiB));
  }
  return bytes;
}

// The preset, then the file, then the flags; later ones override.
Result<Scenario::Settings> SettingsOf(const Flags& flags) {
  Result<Options> options = PresetOptions(flags.preset);
  // Scenarios are computed by hand with the mode table, so that is the default policy here.
  if (options && options->policy == Options().policy) options->policy = "documented";
  if (!options) return Bad(fmt::format("--{}", options.error().message));
  if (!flags.config.empty()) {
    const Result<std::string> text = ReadAll(flags.config);
    if (!text) return text.error();
    options = LoadOptions(*text, flags.config, *options, flags.preset_given);
    if (!options) return options.error();
  }
  for (const auto& [name, text] :
       {std::pair<const char*, const std::string&>{"capacity", flags.capacity},
        {"policy", flags.policy}}) {
    if (text.empty()) continue;
    if (Status ok = ApplySetting(&*options, name, text); !ok) {
      return Bad(fmt::format("--{}", ok.error().message));
    }
  }
  const Result<Bytes> bytes_per_token = BytesPerToken(flags.bytes_per_token);
  if (!bytes_per_token) return bytes_per_token.error();
  return Scenario::Settings{*options, *bytes_per_token};
}

int Simulate(const Flags& flags) {
  const Result<Scenario::Settings> settings = SettingsOf(flags);
  if (!settings) return Complain("simulate", settings.error().message);
  const Result<std::unique_ptr<Scenario>> scenario = Scenario::Open(*settings);
  if (!scenario) return Complain("simulate", scenario.error().message);
  if (flags.file == "-") return RunScenario(scenario->get(), STDIN_FILENO, stdout, stderr);

  const int fd = open(flags.file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return Complain("simulate",
                    fmt::format("can't open '{}': {}", flags.file, std::strerror(errno)));
  }
  const int status = RunScenario(scenario->get(), fd, stdout, stderr);
  close(fd);
  return status;
}

}  // namespace

int RunSimulate(int argc, char** argv) {
  Flags flags;
  CLI::App app(kAbout, "spillway simulate");
  Describe(&app, &flags);
  if (const auto status = ReadArguments(&app, argc, argv)) return *status;
  flags.preset_given = app.count("--preset") > 0;
  return Simulate(flags);
}

}  // namespace spillway
