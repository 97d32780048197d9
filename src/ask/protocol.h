// The lines of an ask: docs/design/ask.md has the whole protocol. Nothing here
// touches a socket; a line that is not of the protocol is an Error whose message
// says what would be right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

inline constexpr int kAskVersion = 1;
// With its newline. A device's name has at most 64 bytes, a number 20.
inline constexpr std::size_t kAskLineMax = 256;
// More than any device has; sums of them stay far from wrapping around.
inline constexpr Bytes kAskBytesMax = Bytes{1} << 50;
inline constexpr Duration kAskTimeMax = std::chrono::hours(24 * 7);
// Giving back ends after this long, however long the grant may live.
inline constexpr Duration kAskGiveMax = std::chrono::seconds(10);

struct AskRequest {
  enum class Verb : std::uint8_t {
    kHeld,  // What do you hold, and what of it could go at once?
    kHold,  // Do not grow into this much free memory.
    kAsk    // Give this much back, and do not grow into it.
  };
  Verb verb = Verb::kHeld;
  std::string device;
  Bytes bytes = 0;
  Duration time{};  // Whole milliseconds.
};

struct AskReply {
  Bytes bytes = 0;
  std::string rest;  // After the number.
};

// Without newlines, all of them.
Result<AskRequest> ParseAskRequest(std::string_view line);
std::string FormatAskRequest(const AskRequest& request);
// An `ERR` is an Error with its text.
Result<AskReply> ParseAskReply(std::string_view line);
std::string FormatAskOk(Bytes bytes, std::string_view rest);
std::string FormatAskError(std::string_view what);

// 1 to 64 of a-z A-Z 0-9 . _ -, not beginning with a point: it is part of a
// file's name.
bool IsAskDevice(std::string_view device);

}  // namespace spillway
