// SPDX-License-Identifier: Apache-2.0
// The virtual cards that processes of this machine use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "spillway/result.h"

namespace spillway {

// By name, sorted. Cards whose processes have all ended are not among them.
std::vector<std::string> CardsInUse();

// InvalidArgument if no process uses the card: the message lists those in use, and says how a
// daemon shares its own.
Status CheckCardInUse(std::string_view name);

}  // namespace spillway
