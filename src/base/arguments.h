// A command line read as CLI11 reads it, with its words in our way.
#pragma once

#include <cstdio>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/exit_status.h"

namespace spillway {

// Empty: go on. Else the command's exit status: it was asked for help, or got
// words it does not know.
inline std::optional<int> ReadArguments(CLI::App* app, int argc, char** argv) {
  try {
    app->parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app->help());
    return 0;
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "{}: {}; see {} --help\n", app->get_name(), error.what(), app->get_name());
    return kBadUse;
  }
}

}  // namespace spillway
