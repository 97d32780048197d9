// Keys are any bytes; people read messages. Shows a key escaped and shortened.
#pragma once

#include <string>
#include <string_view>

namespace spillway {

// At most `most` characters of it, control and non-ASCII bytes as \xNN.
std::string Printable(std::string_view bytes, std::size_t most = 80);

}  // namespace spillway
