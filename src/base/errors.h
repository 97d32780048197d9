// The errors that nearly every folder makes.
#pragma once

#include <string>
#include <utility>

#include "spillway/result.h"

namespace spillway {

// The caller's words are wrong; the message names them and what would be right.
inline Error Bad(std::string message) { return Error{Code::kInvalidArgument, std::move(message)}; }

inline Error NoMemory() { return Error{Code::kNoMemory, "no memory"}; }

}  // namespace spillway
