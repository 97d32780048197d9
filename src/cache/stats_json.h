// A cache's stats as one JSON object, for those who are not C++.
#pragma once

#include <string>

#include "spillway/stats.h"

namespace spillway {

std::string StatsJson(const Stats& from);

}  // namespace spillway
