// SPDX-License-Identifier: Apache-2.0
// A snapshot and its events as plain lines, for logs and pipes.
#pragma once

#include <optional>
#include <string>

#include "view/event_log.h"
#include "view/snapshot.h"

namespace spillway::view {

// "  7.0 s  PRESSURE   pressure 0.87  ours 300 MiB  others ..."
std::string StatusLine(const Snapshot& snapshot);
// "  7.0 s  host      RELAXED   pressure 0.31  7.2 GiB of 23 GiB"
std::string TierLine(Duration at, const TierRow& row);

}  // namespace spillway::view
