// SPDX-License-Identifier: Apache-2.0
// Parses requests of the Redis protocol as they arrive: arrays of bulk strings, or a line as typed
// by a person. Pure: no sockets, no knowledge of commands.
//
// The caller owns the bytes. It passes the frame being read to the parser, from its first byte,
// again and again with more bytes at the end; no byte is examined twice. Arguments are ranges of
// that frame. A large argument can be taken out of the stream, so that its bytes are read directly
// to their destination.
//
// Replies to malformed requests are those of Redis 7. As there, the CRLF after a bulk string is
// skipped without a check.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::wire {

// Limits beyond which a request is an error, as in Redis.
struct RequestLimits {
  std::int64_t args_max = 1'048'576;
  std::int64_t bulk_max = 512LL * 1024 * 1024;
  // For a line, or for the header of a bulk string or an array.
  std::size_t line_max = 65'536;
  // Arguments of at least this size are offered to be taken out (kLarge). 0: none.
  std::int64_t large_from = 0;
  // The client has not authenticated: at most 10 arguments of 16 KiB.
  bool strangers = false;
};

// The parser of one connection.
class RequestParser {
 public:
  enum class Outcome : std::uint8_t {
    kMore,  // The frame is incomplete.
    // The frame is complete: see args() and consumed(). Call Next() before the next frame.
    kRequest,
    kNothing,  // An empty line or array: consumed() bytes, and no request.
    kLarge,    // The next argument is large: call TakeOut() or GoOn().
    kError     // See error(). The stream cannot be parsed any further.
  };

  // `frame` begins where the last one ended, and only grows until it is complete.
  Outcome Parse(std::string_view frame, const RequestLimits& limits);
  // Forgets the frame, so that the next can begin.
  void Next();

  std::size_t consumed() const { return at_; }
  std::size_t count() const { return args_.size(); }
  // How many arguments the frame's header declares.
  std::size_t declared() const { return declared_; }
  // Argument `i`. The view is valid as long as `frame`.
  std::string_view arg(std::size_t i, std::string_view frame) const {
    if (inlined_) return inline_args_[i];
    return frame.substr(args_[i].at, args_[i].bytes);
  }
  // The request was a typed line.
  bool inlined() const { return inlined_; }
  // The reply is "-ERR Protocol error: " and this text.
  const std::string& error() const { return error_; }

  // --- after kLarge ---

  // The argument's bytes begin at consumed() of the frame.
  std::int64_t large_bytes() const { return bulk_; }
  // The caller takes the argument's bytes and its CRLF out of the stream: the frame continues after
  // them, and arg() of the argument is empty.
  void TakeOut();
  // The argument is read like any other.
  void GoOn() { offered_ = true; }

 private:
  struct Range {
    std::size_t at = 0;
    std::size_t bytes = 0;
  };
  enum class Line : std::uint8_t { kMore, kWhole, kTooLong };

  Outcome Fail(std::string message);
  Outcome ParseInline(std::string_view frame, const RequestLimits& limits);
  Outcome ParseArray(std::string_view frame, const RequestLimits& limits);
  Outcome ParseArrayHeader(std::string_view frame, const RequestLimits& limits);
  Outcome ParseBulkHeader(std::string_view frame, const RequestLimits& limits);
  bool ReadShortHeader(std::string_view frame);
  // Finds the end of the line that begins at at_.
  Line FindLine(std::string_view frame, char end, std::size_t line_max, std::size_t* stop);

  std::size_t at_ = 0;        // Everything before it is parsed.
  std::size_t looked_ = 0;    // No line ends before it.
  std::int64_t left_ = 0;     // Arguments not yet read.
  std::int64_t bulk_ = -1;    // Bytes of the current argument. -1: its header comes next.
  std::size_t declared_ = 0;  // Number of arguments. 0: the frame's header comes next.
  bool offered_ = false;
  bool inlined_ = false;
  std::vector<Range> args_;
  std::vector<std::string> inline_args_;
  std::string error_;
};

// Splits a line into words as a shell does: separated by blanks, "..." with escapes, '...' without.
// False: a quote is not closed, or is directly followed by another character.
bool SplitLine(std::string_view line, std::vector<std::string>* words);

// Parses a whole number as Redis does: no blanks, no plus sign, no leading zeros.
bool ReadInteger(std::string_view text, std::int64_t* number);

}  // namespace spillway::wire
