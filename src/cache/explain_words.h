// SPDX-License-Identifier: Apache-2.0
// Words of Cache::Explain that programs look for.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/printable.h"

namespace spillway {

// How Explain begins for a key that is in no tier and of which no event is remembered.
inline std::string NeverHeardOf(std::string_view key) {
  return fmt::format("'{}' is not here: never set, or longer ago than", Printable(key));
}

}  // namespace spillway
