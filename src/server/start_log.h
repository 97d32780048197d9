// SPDX-License-Identifier: Apache-2.0
// The log lines at the start of the daemon: version, settings, and what was recovered from disk.
// They never contain a password.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/settings.h"
#include "spillway/stats.h"

namespace spillway::server {

// Version, device, tiers with their capacities, policy, config file, password.
// `config_file` empty: there is none.
std::vector<std::string> StartLines(const Config& config, const std::string& config_file,
                                    const Stats& stats);

// What the disk tier recovered. Empty: it is still reading its files, or there is no disk tier.
std::optional<std::string> RecoveredLine(const Config& config, const Stats& stats);

}  // namespace spillway::server
