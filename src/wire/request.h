// Requests of the Redis protocol, read as they arrive: arrays of bulk strings, or
// a line as one types it. Pure: no sockets, no knowledge of commands.
//
// The caller keeps the bytes. It shows the parser the frame that is being read,
// from its first byte on, again and again with more bytes behind; no byte is
// looked at twice. Arguments are ranges of that frame. A large argument can be
// taken out of the stream, so that its bytes go where they belong at once.
//
// Replies to what is malformed are those of Redis 7, and as there the trailing
// CRLF of a bulk string is skipped without a look.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::wire {

struct RequestLimits {
  std::int64_t args_max = 1024 * 1024;
  std::int64_t bulk_max = 512LL * 1024 * 1024;
  // A line, or the header of a bulk string or an array.
  std::size_t line_max = 64 * 1024;
  // From this size on an argument is offered to be taken out (kLarge); 0: none is.
  std::int64_t large_from = 0;
  // Nobody has said who they are yet: 10 arguments of 16 KiB will do.
  bool strangers = false;
};

class RequestParser {
 public:
  enum class Outcome : std::uint8_t {
    kMore,     // The frame is not whole.
    kRequest,  // It is: args() and consumed(). Call Next() before the next frame.
    kNothing,  // An empty line or array: consumed() bytes, and no request.
    kLarge,    // The next argument is large: TakeOut() or GoOn().
    kError     // error(); the stream can't be made sense of any more.
  };

  // `frame` begins where the last one ended, and only grows until it is whole.
  Outcome Parse(std::string_view frame, const RequestLimits& limits);
  // Forgets the frame: the next begins.
  void Next();

  std::size_t consumed() const { return at_; }
  std::size_t count() const { return args_.size(); }
  // How many the frame said it has.
  std::size_t declared() const { return declared_; }
  std::string_view arg(std::size_t i, std::string_view frame) const {
    if (inlined_) return inline_args_[i];
    return frame.substr(args_[i].at, args_[i].bytes);
  }
  // The request came as a line.
  bool inlined() const { return inlined_; }
  // After the "-ERR Protocol error: " that it is answered with.
  const std::string& error() const { return error_; }

  // --- after kLarge ---

  // Its bytes begin at consumed() of the frame.
  std::int64_t large_bytes() const { return bulk_; }
  // The caller takes the argument's bytes and its CRLF out of the stream: the
  // frame goes on behind them. arg() of it is empty.
  void TakeOut();
  // Read it like any other.
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
  // Looks for the end of the line that begins at at_.
  Line FindLine(std::string_view frame, char end, std::size_t line_max, std::size_t* stop);

  std::size_t at_ = 0;        // Everything before has been understood.
  std::size_t looked_ = 0;    // No line ends before this.
  std::int64_t left_ = 0;     // Arguments still to come.
  std::int64_t bulk_ = -1;    // Bytes of the one being read; -1: its header is next.
  std::size_t declared_ = 0;  // Arguments in all; 0: the frame's header is next.
  bool offered_ = false;
  bool inlined_ = false;
  std::vector<Range> args_;
  std::vector<std::string> inline_args_;
  std::string error_;
};

// Splits a line into words as a shell would: blanks between them, "..." with
// escapes, '...' without. False: a quote is not closed, or is followed by a
// letter.
bool SplitLine(std::string_view line, std::vector<std::string>* words);

// A whole number as Redis reads it: no blanks, no plus, no leading zeros.
bool ReadInteger(std::string_view text, std::int64_t* number);

}  // namespace spillway::wire
