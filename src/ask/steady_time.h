// SPDX-License-Identifier: Apache-2.0
// The clock for waits on both sides of the ask socket.
#pragma once

#include <chrono>

namespace spillway {

using SteadyClock = std::chrono::steady_clock;
using SteadyTime = SteadyClock::time_point;

inline SteadyTime Now() { return SteadyClock::now(); }  // real world: people and neighbours wait

}  // namespace spillway
