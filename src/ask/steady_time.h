// The time both sides of the socket wait by.
#pragma once

#include <chrono>

namespace spillway {

using SteadyClock = std::chrono::steady_clock;
using SteadyTime = SteadyClock::time_point;

inline SteadyTime Now() { return SteadyClock::now(); }  // real world: people and neighbours wait

}  // namespace spillway
