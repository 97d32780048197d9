// SPDX-License-Identifier: Apache-2.0
// Reads a command line with CLI11, with our error messages.
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/exit_status.h"
#include "base/renamed.h"

namespace spillway {

// Empty: go on. Otherwise the exit status: help was asked for, or an argument is unknown.
inline std::optional<int> ReadArguments(CLI::App* app, int argc, char** argv) {
  try {
    app->parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app->help());
    return 0;
  } catch (const CLI::ParseError& error) {
    for (int i = 1; i < argc; ++i) {  // A setting's old name as a flag?
      std::string_view flag = argv[i];
      if (!flag.starts_with("--")) continue;
      flag = flag.substr(0, flag.find('='));
      const std::string now = ItIsNow(flag.substr(2));
      if (now.empty()) continue;
      fmt::print(stderr, "{}: unknown option '{}'{}, in a file of settings (--config)\n",
                 app->get_name(), flag, now);
      return kBadUse;
    }
    fmt::print(stderr, "{}: {}; see {} --help\n", app->get_name(), error.what(), app->get_name());
    return kBadUse;
  }
}

}  // namespace spillway
