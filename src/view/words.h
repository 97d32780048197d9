// SPDX-License-Identifier: Apache-2.0
// How `spillway top` formats values, the same in its table and its lines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "spillway/mode.h"
#include "spillway/units.h"
#include "view/event_log.h"

namespace spillway::view {

// "EMERGENCY"
std::string Upper(std::string_view name);
// "12,345"
std::string Grouped(std::uint64_t number);
// "7.3 s"
std::string Seconds(Duration time);
// "0:07"
std::string MinutesAndSeconds(Duration time);
// "0.97", or "unknown".
std::string PressureText(std::optional<double> pressure);
// "93.1 %" of all; "-" if `all` is 0.
std::string ShareText(std::uint64_t part, std::uint64_t all);
// What happened, past tense: "destroyed". What clients remove is not: "erased", "replaced" or
// "cleared", whatever was done to the copy.
std::string_view Done(Action action, Reason reason);
// Whether clients removed it: no loss.
bool ByClients(Reason reason);

}  // namespace spillway::view
