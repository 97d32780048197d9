// SPDX-License-Identifier: Apache-2.0
#include "base/state_dir.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/environment.h"

namespace spillway {
namespace {

// Empty: it is writable. Otherwise the reason.
std::string WhyNot(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return error.message();
  if (::access(path.c_str(), W_OK | X_OK) != 0) return std::strerror(errno);
  return {};
}

}  // namespace

std::vector<std::string> StateDirsToSearch() {
  if (std::string told = Environment("SPILLWAY_STATE_DIR"); !told.empty()) return {told};
  std::vector<std::string> places{"/var/lib/spillway"};
  if (const std::string xdg = Environment("XDG_STATE_HOME"); !xdg.empty()) {
    places.push_back(xdg + "/spillway");
  }
  if (const std::string home = Environment("HOME"); !home.empty()) {
    places.push_back(home + "/.local/state/spillway");
  }
  return places;
}

Result<std::string> StateDir() {
  std::vector<std::string> places = StateDirsToSearch();
  std::string last;
  for (std::string& place : places) {
    last = WhyNot(place);
    if (last.empty()) return std::move(place);
  }
  return Error{Code::kUnavailable,
               fmt::format("no state directory: none of {} can be used (the last: {}); set "
                           "SPILLWAY_STATE_DIR to one that can",
                           fmt::join(places, ", "), last)};
}

}  // namespace spillway
