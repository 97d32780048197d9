// SPDX-License-Identifier: Apache-2.0
#include "base/run_dir.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/environment.h"

namespace spillway {
namespace {

// Empty: the directory can be used. Otherwise the reason.
std::string WhyNot(const std::string& path, bool must_be_ours) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return std::strerror(errno);
  struct stat facts{};
  if (::lstat(path.c_str(), &facts) != 0) return std::strerror(errno);
  if (must_be_ours) {
    // In /tmp any user may have created it first: refuse links and other owners.
    if (!S_ISDIR(facts.st_mode)) return "it is not a directory";
    if (facts.st_uid != ::geteuid()) return "it belongs to another user";
    if ((facts.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "others may write to it";
  } else if (::stat(path.c_str(), &facts) != 0) {
    return std::strerror(errno);
  } else if (!S_ISDIR(facts.st_mode)) {
    return "it is not a directory";
  }
  if (::access(path.c_str(), R_OK | W_OK | X_OK) != 0) return std::strerror(errno);
  return {};
}

// In the order in which they are tried, without the last.
std::vector<std::string> SharedPlaces() {
  std::vector<std::string> places{"/run/spillway"};
  if (const std::string xdg = Environment("XDG_RUNTIME_DIR"); !xdg.empty()) {
    places.push_back(xdg + "/spillway");
  }
  return places;
}

std::string OwnPlace() { return fmt::format("/tmp/spillway-{}", ::geteuid()); }

}  // namespace

Result<std::string> RunDir() {
  if (std::string told = Environment("SPILLWAY_RUN_DIR"); !told.empty()) {
    const std::string why_not = WhyNot(told, false);
    if (why_not.empty()) return told;
    return Error{Code::kUnavailable,
                 fmt::format("SPILLWAY_RUN_DIR={} cannot be used: {}", told, why_not)};
  }
  std::vector<std::string> places = SharedPlaces();
  for (std::string& place : places) {
    if (WhyNot(place, false).empty()) return place;
  }
  std::string last = OwnPlace();
  const std::string why_not = WhyNot(last, true);
  if (why_not.empty()) return last;
  return Error{Code::kUnavailable,
               fmt::format("no run directory: none of {}, {} can be used (the last: {}); "
                           "set SPILLWAY_RUN_DIR to one that can",
                           fmt::join(places, ", "), last, why_not)};
}

std::vector<std::string> RunDirsToSearch() {
  if (std::string told = Environment("SPILLWAY_RUN_DIR"); !told.empty()) return {told};
  std::vector<std::string> places = SharedPlaces();
  std::erase_if(places,
                [](const std::string& place) { return ::access(place.c_str(), R_OK | X_OK) != 0; });
  const std::string own = OwnPlace();
  if (::access(own.c_str(), F_OK) == 0 && WhyNot(own, true).empty()) places.push_back(own);
  return places;
}

}  // namespace spillway
