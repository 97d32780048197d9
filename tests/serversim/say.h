// SPDX-License-Identifier: Apache-2.0
// What a verbose world tells of itself.
#pragma once

#include <fmt/format.h>

#include "serversim/world.h"

namespace spillway::serversim {

template <typename... Args>
void World::Say(const char* form, const Args&... args) {
  if (!options_.verbose) return;
  fmt::print("{} at {:.3f} ms: {}\n", verdict_.event,
             static_cast<double>(now().time_since_epoch().count()) / 1e6,
             fmt::format(fmt::runtime(form), args...));
}

}  // namespace spillway::serversim
