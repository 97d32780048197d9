// SPDX-License-Identifier: Apache-2.0
#include "server/start_log.h"

#include <fmt/format.h>

#include "base/parse.h"
#include "spillway/version.h"

namespace spillway::server {

namespace {

std::string TierWords(const TierStats& tier, std::string_view where) {
  return fmt::format("{} tier {}{}", tier.name,
                     tier.capacity == 0 ? "without a capacity" : FormatBytes(tier.capacity), where);
}

}  // namespace

std::vector<std::string> StartLines(const Config& config, const std::string& config_file,
                                    const Stats& stats) {
  const Options& cache = config.cache;
  std::string tiers =
      TierWords(stats.device,
                fmt::format(" on {}{}{}", cache.device, cache.card.empty() ? "" : ":", cache.card));
  if (!stats.host.name.empty()) tiers += ", " + TierWords(stats.host, "");
  if (!stats.disk.name.empty()) {
    tiers += ", " + TierWords(stats.disk, fmt::format(" in {}", cache.disk_dir));
  }
  return {
      fmt::format("spillwayd {}: config file {}, {}", SPILLWAY_VERSION,
                  config_file.empty() ? "none" : config_file,
                  config.server.password.empty() ? "no password is set" : "a password is set"),
      fmt::format("spillwayd: device {}, {}, policy {}, pressure from {}", cache.device, tiers,
                  cache.policy, stats.source.name),
  };
}

std::optional<std::string> RecoveredLine(const Config& config, const Stats& stats) {
  if (stats.disk.name.empty() || stats.loading) return std::nullopt;
  const FileStats& files = stats.disk.files;
  std::string line =
      fmt::format("spillwayd: {} recovered from {}",
                  files.recovered == 0   ? std::string("no entry was")
                  : files.recovered == 1 ? std::string("1 entry was")
                                         : fmt::format("{} entries were", files.recovered),
                  config.cache.disk_dir);
  if (files.recovery_rejected > 0) {
    line +=
        fmt::format("; {} damaged journal records or ranges were skipped", files.recovery_rejected);
  }
  return line;
}

}  // namespace spillway::server
