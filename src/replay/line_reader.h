// Lines from a file descriptor, as they come: a whole line is handed out
// without waiting for the next one.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "spillway/result.h"

namespace spillway {

class LineReader {
 public:
  // A line may hold a key and a parent of 64 KiB each, every byte of them
  // escaped (\u0001): 768 KiB, and the rest.
  static constexpr std::size_t kLineBytesMax = std::size_t{1} << 20;

  // The descriptor stays the caller's.
  explicit LineReader(int fd) : fd_(fd) {}

  // Whether Next can answer without reading, and so without waiting.
  bool ready() const { return ended_ || buffer_.find('\n', begin_) != std::string::npos; }

  // The next line without its end; nothing at the end of the file. The view
  // lives until the next call. An error: reading failed, or the line is longer
  // than kLineBytesMax.
  Result<std::optional<std::string_view>> Next();

  // Number of the line Next gave last, from 1 on.
  std::size_t number() const { return number_; }

 private:
  Status Fill();

  const int fd_;
  std::string buffer_;
  std::size_t begin_ = 0;  // Of what has not been handed out.
  std::size_t number_ = 0;
  bool ended_ = false;
};

}  // namespace spillway
