// SPDX-License-Identifier: Apache-2.0
// Errors that nearly every folder returns.
#pragma once

#include <string>
#include <utility>

#include "spillway/result.h"

namespace spillway {

// An invalid argument; the message names it and says what would be valid.
inline Error Bad(std::string message) { return Error{Code::kInvalidArgument, std::move(message)}; }

inline Error NoMemory() { return Error{Code::kNoMemory, "no memory"}; }

}  // namespace spillway
