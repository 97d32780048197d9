// Lines, as they come: a whole line is handed out without waiting for the next
// one, and no more than one line and a buffer are held.
#pragma once

#include <cstddef>
#include <functional>
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
  // At most so many bytes, and how many there were; 0: that was all.
  using Read = std::function<Result<std::size_t>(char* into, std::size_t bytes)>;

  // The descriptor stays the caller's.
  explicit LineReader(int fd);
  explicit LineReader(Read read, std::size_t line_bytes_max = kLineBytesMax)
      : read_(std::move(read)), line_bytes_max_(line_bytes_max) {}

  // Whether Next can answer without reading, and so without waiting.
  bool ready() const { return ended_ || buffer_.find('\n', begin_) != std::string::npos; }

  // The next line without its end; nothing at the end of the file. The view
  // lives until the next call. An error: reading failed, or the line is longer
  // than it may be.
  Result<std::optional<std::string_view>> Next();

  // Number of the line Next gave last, from 1 on.
  std::size_t number() const { return number_; }

 private:
  Status Fill();

  Read read_;
  std::size_t line_bytes_max_;
  std::string buffer_;
  std::size_t begin_ = 0;  // Of what has not been handed out.
  std::size_t number_ = 0;
  bool ended_ = false;
};

}  // namespace spillway
