// SPDX-License-Identifier: Apache-2.0
// Reads lines as they arrive: a complete line is returned without waiting for the next one. Holds
// at most one line and a buffer.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "spillway/result.h"

namespace spillway {

// Not thread-safe.
class LineReader {
 public:
  // A line may contain a key and a parent of 64 KiB each, with every byte escaped (\u0001): 768
  // KiB, plus the rest.
  static constexpr std::size_t kLineBytesMax = std::size_t{1} << 20;
  // Reads at most `bytes` and returns how many; 0: end of input.
  using Read = std::function<Result<std::size_t>(char* into, std::size_t bytes)>;

  // `fd` stays open and belongs to the caller.
  explicit LineReader(int fd);
  explicit LineReader(Read read, std::size_t line_bytes_max = kLineBytesMax)
      : read_(std::move(read)), line_bytes_max_(line_bytes_max) {}

  // Whether Next can return without reading, and so without blocking.
  bool ready() const { return ended_ || buffer_.find('\n', begin_) != std::string::npos; }

  // The next line without its newline; empty at the end of the file. The view is valid until the
  // next call. An error: reading failed, or the line is too long.
  Result<std::optional<std::string_view>> Next();

  // The number of the last line Next returned, from 1.
  std::size_t number() const { return number_; }

 private:
  Status Fill();

  Read read_;
  std::size_t line_bytes_max_;
  std::string buffer_;
  std::size_t begin_ = 0;  // Begin of the data not yet returned.
  std::size_t number_ = 0;
  bool ended_ = false;
};

}  // namespace spillway
