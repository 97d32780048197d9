// SPDX-License-Identifier: Apache-2.0
#include "ask/protocol.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "base/errors.h"
#include "base/printable.h"

namespace spillway {
namespace {

constexpr std::size_t kDeviceMax = 64;
// How much of an unknown word is shown in a message.
constexpr std::size_t kShown = 24;

constexpr std::string_view kRight =
    "valid requests: HELD 1 <device>, HOLD 1 <device> <bytes> <ms>, ASK 1 <device> <bytes> <ms>";

bool IsText(std::string_view line) {
  return std::ranges::all_of(line, [](char c) { return c >= ' ' && c <= '~'; });
}

// Splits at single spaces. Lines are written by programs, so other spacing is an error.
std::vector<std::string_view> Words(std::string_view line) {
  std::vector<std::string_view> words;
  for (;;) {
    const std::size_t space = line.find(' ');
    words.push_back(line.substr(0, space));
    if (space == std::string_view::npos) return words;
    line.remove_prefix(space + 1);
  }
}

// Digits only. Empty: anything else, or a number beyond 64 bits.
std::optional<std::uint64_t> Number(std::string_view word) {
  std::uint64_t number = 0;
  const char* const begin = word.data();
  const char* const end = begin + word.size();
  if (word.empty() || word.front() < '0' || word.front() > '9') return std::nullopt;
  const auto [stop, error] = std::from_chars(begin, end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

struct VerbName {
  std::string_view name;
  AskRequest::Verb verb;
  std::size_t words;
};
constexpr std::array kVerbs = {VerbName{"HELD", AskRequest::Verb::kHeld, 3},
                               VerbName{"HOLD", AskRequest::Verb::kHold, 5},
                               VerbName{"ASK", AskRequest::Verb::kAsk, 5}};

Status ReadAmounts(const std::vector<std::string_view>& words, AskRequest* request) {
  const std::optional<std::uint64_t> bytes = Number(words[3]);
  if (!bytes || *bytes > kAskBytesMax) {
    return Bad(fmt::format("'{}' is not a number of bytes from 0 to {}", words[3].substr(0, kShown),
                           kAskBytesMax));
  }
  constexpr auto kMost = static_cast<std::uint64_t>(kAskTimeMax / std::chrono::milliseconds(1));
  const std::optional<std::uint64_t> ms = Number(words[4]);
  if (!ms || *ms > kMost) {
    return Bad(fmt::format("'{}' is not a number of milliseconds from 0 to {}",
                           words[4].substr(0, kShown), kMost));
  }
  request->bytes = *bytes;
  request->time = std::chrono::milliseconds(*ms);
  return {};
}

}  // namespace

bool IsAskDevice(std::string_view device) {
  const bool fits = std::ranges::all_of(device, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
  return fits && !device.empty() && device.size() <= kDeviceMax && device.front() != '.';
}

Result<AskRequest> ParseAskRequest(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (!IsText(line)) return Bad(fmt::format("that is not a line of text; {}", kRight));
  const std::vector<std::string_view> words = Words(line);
  const auto* const verb = std::ranges::find(kVerbs, words[0], &VerbName::name);
  if (verb == kVerbs.end()) {
    return Bad(fmt::format("'{}' is not known; {}", words[0].substr(0, kShown), kRight));
  }
  if (words.size() < 2 || words[1] != fmt::to_string(kAskVersion)) {
    return Bad(fmt::format("version '{}' is not supported; version {} is",
                           words.size() < 2 ? "" : words[1].substr(0, kShown), kAskVersion));
  }
  if (words.size() != verb->words) {
    return Bad(fmt::format("{} takes {} words, not {}; {}", verb->name, verb->words, words.size(),
                           kRight));
  }
  AskRequest request;
  request.verb = verb->verb;
  if (!IsAskDevice(words[2])) {
    return Bad(fmt::format("'{}' names no device; valid are a card's name and a GPU's uuid",
                           words[2].substr(0, kShown)));
  }
  request.device = words[2];
  if (verb->words > 3) {
    if (Status ok = ReadAmounts(words, &request); !ok) return ok.error();
  }
  return request;
}

std::string FormatAskRequest(const AskRequest& request) {
  const auto* const verb = std::ranges::find(kVerbs, request.verb, &VerbName::verb);
  std::string line = fmt::format("{} {} {}", verb->name, kAskVersion, request.device);
  if (verb->words > 3) {
    line += fmt::format(" {} {}", request.bytes, request.time / std::chrono::milliseconds(1));
  }
  return line;
}

Result<AskReply> ParseAskReply(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.starts_with("ERR ")) return Error{Code::kUnavailable, Printable(line.substr(4), 200)};
  const std::vector<std::string_view> words = Words(line);
  const std::optional<std::uint64_t> bytes =
      words.size() >= 2 && words[0] == "OK" && IsText(line) ? Number(words[1]) : std::nullopt;
  if (!bytes) return Bad(fmt::format("'{}' is no answer to an ask", Printable(line, kShown)));
  AskReply reply;
  reply.bytes = *bytes;
  if (words.size() > 2) reply.rest = line.substr(words[0].size() + words[1].size() + 2);
  return reply;
}

namespace {

// Replaces what is not printable, and cuts to the limit.
std::string OneLine(std::string line) {
  constexpr std::size_t kMost = kAskLineMax - 1;
  if (line.size() > kMost) line.resize(kMost);
  std::ranges::replace_if(line, [](char c) { return c < ' ' || c > '~'; }, '?');
  return line;
}

}  // namespace

std::string FormatAskOk(Bytes bytes, std::string_view rest) {
  return OneLine(fmt::format("OK {}{}{}", bytes, rest.empty() ? "" : " ", rest));
}

std::string FormatAskError(std::string_view what) { return OneLine(fmt::format("ERR {}", what)); }

}  // namespace spillway
