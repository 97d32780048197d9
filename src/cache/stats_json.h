// SPDX-License-Identifier: Apache-2.0
// A cache's stats as one JSON object, for programs that are not written in C++.
#pragma once

#include <string>

#include "spillway/stats.h"

namespace spillway {

std::string StatsJson(const Stats& from);

}  // namespace spillway
