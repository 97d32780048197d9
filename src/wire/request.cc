// SPDX-License-Identifier: Apache-2.0
#include "wire/request.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

namespace spillway::wire {

namespace {
constexpr std::int64_t kStrangersArgsMax = 10;
constexpr std::int64_t kStrangersBulkMax = 16'384;
// How many are reserved at once: the declared number may be wrong.
constexpr std::size_t kArgsAtOnce = 64;
constexpr std::size_t kArgsKept = 1024;  // Memory for more than this is given back.
}  // namespace

bool ReadInteger(std::string_view text, std::int64_t* number) {
  if (text.empty() || text.size() > 20) return false;
  const bool negative = text[0] == '-';
  const std::string_view digits = negative ? text.substr(1) : text;
  if (digits.empty() || digits[0] < '0' || digits[0] > '9') return false;
  if (digits[0] == '0' && (digits.size() > 1 || negative)) return false;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *number);
  return error == std::errc() && stop == end;
}

void RequestParser::Next() {
  at_ = looked_ = 0;
  left_ = 0;
  declared_ = 0;
  bulk_ = -1;
  offered_ = inlined_ = false;
  if (args_.capacity() > kArgsKept) args_ = {};
  args_.clear();
  if (!inline_args_.empty()) inline_args_.clear();
}

RequestParser::Outcome RequestParser::Fail(std::string message) {
  error_ = std::move(message);
  return Outcome::kError;
}

RequestParser::Line RequestParser::FindLine(std::string_view frame, char end, std::size_t line_max,
                                            std::size_t* stop) {
  const std::size_t from = std::max(at_, looked_);
  const void* const found =
      from < frame.size() ? std::memchr(frame.data() + from, end, frame.size() - from) : nullptr;
  if (found == nullptr) {
    looked_ = frame.size();
    return frame.size() - at_ > line_max ? Line::kTooLong : Line::kMore;
  }
  *stop = static_cast<std::size_t>(static_cast<const char*>(found) - frame.data());
  looked_ = *stop;
  return Line::kWhole;
}

RequestParser::Outcome RequestParser::Parse(std::string_view frame, const RequestLimits& limits) {
  if (frame.empty()) return Outcome::kMore;
  return frame[0] == '*' ? ParseArray(frame, limits) : ParseInline(frame, limits);
}

RequestParser::Outcome RequestParser::ParseInline(std::string_view frame,
                                                  const RequestLimits& limits) {
  std::size_t stop = 0;
  switch (FindLine(frame, '\n', limits.line_max, &stop)) {
    case Line::kMore:
      return Outcome::kMore;
    case Line::kTooLong:
      return Fail("too big inline request");
    case Line::kWhole:
      break;
  }
  const std::size_t end = stop > 0 && frame[stop - 1] == '\r' ? stop - 1 : stop;
  if (!SplitLine(frame.substr(0, end), &inline_args_)) {
    return Fail("unbalanced quotes in request");
  }
  at_ = stop + 1;
  inlined_ = true;
  args_.resize(inline_args_.size());
  declared_ = args_.size();
  return inline_args_.empty() ? Outcome::kNothing : Outcome::kRequest;
}

RequestParser::Outcome RequestParser::ParseArrayHeader(std::string_view frame,
                                                       const RequestLimits& limits) {
  std::size_t stop = 0;
  const Line line = FindLine(frame, '\r', limits.line_max, &stop);
  if (line == Line::kTooLong) return Fail("too big mbulk count string");
  if (line == Line::kMore || stop + 2 > frame.size()) return Outcome::kMore;
  std::int64_t count = 0;
  if (!ReadInteger(frame.substr(1, stop - 1), &count) || count > limits.args_max) {
    return Fail("invalid multibulk length");
  }
  if (limits.strangers && count > kStrangersArgsMax) {
    return Fail("unauthenticated multibulk length");
  }
  at_ = stop + 2;
  if (count <= 0) return Outcome::kNothing;
  left_ = count;
  declared_ = static_cast<std::size_t>(count);
  args_.reserve(std::min(declared_, kArgsAtOnce));
  return Outcome::kRequest;
}

// Most headers are complete and short: $3\r\n. False: parse it the careful way.
bool RequestParser::ReadShortHeader(std::string_view frame) {
  constexpr std::size_t kDigits = 4;  // Too few digits to exceed any limit.
  if (frame.size() - at_ < kDigits + 3 || frame[at_] != '$') return false;
  std::int64_t bytes = 0;
  std::size_t p = at_ + 1;
  for (; p <= at_ + kDigits && frame[p] >= '0' && frame[p] <= '9'; ++p) {
    bytes = bytes * 10 + (frame[p] - '0');
  }
  const bool plain = p > at_ + 1 && frame[p] == '\r' && (frame[at_ + 1] != '0' || p == at_ + 2);
  if (!plain) return false;
  at_ = p + 2;
  bulk_ = bytes;
  offered_ = false;
  return true;
}

RequestParser::Outcome RequestParser::ParseBulkHeader(std::string_view frame,
                                                      const RequestLimits& limits) {
  if (ReadShortHeader(frame)) return Outcome::kRequest;
  std::size_t stop = 0;
  const Line line = FindLine(frame, '\r', limits.line_max, &stop);
  if (line == Line::kTooLong) return Fail("too big bulk count string");
  if (line == Line::kMore || stop + 2 > frame.size()) return Outcome::kMore;
  if (frame[at_] != '$') {
    return Fail(std::string("expected '$', got '") + frame[at_] + "'");
  }
  std::int64_t bytes = 0;
  if (!ReadInteger(frame.substr(at_ + 1, stop - at_ - 1), &bytes) || bytes < 0 ||
      bytes > limits.bulk_max) {
    return Fail("invalid bulk length");
  }
  if (limits.strangers && bytes > kStrangersBulkMax) {
    return Fail("unauthenticated bulk length");
  }
  at_ = stop + 2;
  bulk_ = bytes;
  offered_ = false;
  return Outcome::kRequest;
}

RequestParser::Outcome RequestParser::ParseArray(std::string_view frame,
                                                 const RequestLimits& limits) {
  if (declared_ == 0) {
    const Outcome header = ParseArrayHeader(frame, limits);
    if (header != Outcome::kRequest) return header;
  }
  while (left_ > 0) {
    if (bulk_ < 0) {
      const Outcome header = ParseBulkHeader(frame, limits);
      if (header != Outcome::kRequest) return header;
    }
    if (!offered_ && limits.large_from > 0 && bulk_ >= limits.large_from) return Outcome::kLarge;
    const auto bytes = static_cast<std::size_t>(bulk_);
    if (frame.size() - at_ < bytes + 2) return Outcome::kMore;
    args_.push_back({at_, bytes});
    at_ += bytes + 2;
    bulk_ = -1;
    --left_;
  }
  return Outcome::kRequest;
}

void RequestParser::TakeOut() {
  args_.push_back({at_, 0});
  bulk_ = -1;
  --left_;
}

// --- lines ---

namespace {

bool IsBlank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\v' || c == '\f' || c == '\r' || c == '\0';
}

int HexOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The character after a backslash; `at` moves to the last character used.
char Unescaped(std::string_view line, std::size_t* at) {
  if (line[*at] == 'x' && *at + 2 < line.size() && HexOf(line[*at + 1]) >= 0 &&
      HexOf(line[*at + 2]) >= 0) {
    const int value = HexOf(line[*at + 1]) * 16 + HexOf(line[*at + 2]);
    *at += 2;
    return static_cast<char>(value);
  }
  switch (line[*at]) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'b':
      return '\b';
    case 'a':
      return '\a';
    default:
      return line[*at];
  }
}

// Reads a word that begins at `at`, which moves past it.
bool ReadWord(std::string_view line, std::size_t* at, std::string* word) {
  char quote = 0;
  for (; *at < line.size(); ++*at) {
    const char c = line[*at];
    const bool escaped = c == '\\' && *at + 1 < line.size();
    if (quote == 0) {
      if (IsBlank(c)) return true;
      if (c == '"' || c == '\'') {
        quote = c;
      } else {
        *word += c;
      }
    } else if (quote == '"' && escaped) {
      ++*at;
      *word += Unescaped(line, at);
    } else if (quote == '\'' && escaped && line[*at + 1] == '\'') {
      ++*at;
      *word += '\'';
    } else if (c == quote) {
      ++*at;  // A blank or the end of the line must follow.
      return *at == line.size() || IsBlank(line[*at]);
    } else {
      *word += c;
    }
  }
  return quote == 0;
}

}  // namespace

bool SplitLine(std::string_view line, std::vector<std::string>* words) {
  words->clear();
  // Like a C string: the text after a zero byte is ignored.
  line = line.substr(0, line.find('\0'));
  std::size_t at = 0;
  for (;;) {
    while (at < line.size() && IsBlank(line[at])) ++at;
    if (at == line.size()) return true;
    words->emplace_back();
    if (!ReadWord(line, &at, &words->back())) return false;
  }
}

}  // namespace spillway::wire
