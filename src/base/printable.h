// SPDX-License-Identifier: Apache-2.0
// Keys are arbitrary bytes, messages are for people: shows a key escaped and shortened.
#pragma once

#include <string>
#include <string_view>

namespace spillway {

// Returns at most `most` characters, control and non-ASCII bytes as \xNN.
std::string Printable(std::string_view bytes, std::size_t most = 80);

}  // namespace spillway
