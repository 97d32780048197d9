// SPDX-License-Identifier: Apache-2.0
// The lines of the ask protocol; docs/design/ask.md describes it. Nothing here uses a socket. A
// line that is not part of the protocol is an Error whose message says what would be valid.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

inline constexpr int kAskVersion = 1;
// Including the newline. A device name has at most 64 bytes, a number 20.
inline constexpr std::size_t kAskLineMax = 256;
// More than any device has. Sums of a few of them cannot overflow.
inline constexpr Bytes kAskBytesMax = Bytes{1} << 50;
inline constexpr Duration kAskTimeMax = std::chrono::hours(24 * 7);
// Giving back ends after this time, however long the reservation lasts.
inline constexpr Duration kAskGiveMax = std::chrono::seconds(10);

// One request line.
struct AskRequest {
  enum class Verb : std::uint8_t {
    kHeld,  // How much do you hold, and how much of it could be freed at once?
    kHold,  // Reserve this much free memory: do not use it.
    kAsk    // Free this much memory, and reserve it.
  };
  Verb verb = Verb::kHeld;
  std::string device;
  Bytes bytes = 0;
  Duration time{};  // Of the reservation. Whole milliseconds.
};

// One reply line.
struct AskReply {
  Bytes bytes = 0;
  std::string rest;  // The text after the number.
};

// All lines are without newlines.
Result<AskRequest> ParseAskRequest(std::string_view line);
std::string FormatAskRequest(const AskRequest& request);
// A line that begins with `ERR` is an Error with its text.
Result<AskReply> ParseAskReply(std::string_view line);
// "OK" with a number and an optional explanation; "ERR" with a text.
std::string FormatAskOk(Bytes bytes, std::string_view rest);
std::string FormatAskError(std::string_view what);

// Whether `device` is 1 to 64 of a-z A-Z 0-9 . _ - and does not begin with a dot. It becomes part
// of a file name.
bool IsAskDevice(std::string_view device);

}  // namespace spillway
