// SPDX-License-Identifier: Apache-2.0
// The lines of a file, compressed by gzip or not. Holds at most one line and a buffer in memory.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "replay/line_reader.h"
#include "spillway/result.h"

namespace spillway {

class TraceLines {
 public:
  // Enough for a chain of a million tokens in blocks of 16, with ids of 20 digits: 1.3 MiB.
  static constexpr std::size_t kLineBytesMax = std::size_t{16} << 20;

  // "-": standard input.
  static Result<TraceLines> Open(const std::string& path);

  // The next line without its newline; empty at the end of the file. The view is valid until the
  // next call. An error: reading failed (a damaged archive, for example) or the line is longer than
  // kLineBytesMax.
  Result<std::optional<std::string_view>> Next() { return lines_.Next(); }
  // The number of the last line Next returned, from 1.
  std::size_t number() const { return lines_.number(); }
  // Share of the file read so far. Empty: its size is unknown.
  std::optional<double> progress() const;

 private:
  struct Close {
    void operator()(void* file) const;
  };
  TraceLines(void* file, const std::string& path, std::size_t size);

  std::unique_ptr<void, Close> file_;  // A gzFile of zlib.
  std::size_t size_ = 0;               // Size of the file on disk. 0: unknown.
  LineReader lines_;
};

}  // namespace spillway
