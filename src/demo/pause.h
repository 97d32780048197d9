// Waiting that can be ended: every wait of the demo is one of these.
#pragma once

#include <stop_token>

#include "spillway/units.h"

namespace spillway::demo {

// False: stopped before the time was over.
bool PauseFor(const std::stop_token& stop, Duration time);

}  // namespace spillway::demo
