// Lines of a file, compressed by gzip or not, as a stream: never more than one
// line and a buffer in memory.
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
  // A chain of a million tokens in blocks of 16, ids of 20 digits: 1.3 MiB.
  static constexpr std::size_t kLineBytesMax = std::size_t{16} << 20;

  // "-": standard input.
  static Result<TraceLines> Open(const std::string& path);

  // The next line without its end; nothing at the end of the file. The view
  // lives until the next call. An error: reading failed (a damaged archive, say)
  // or the line is longer than kLineBytesMax.
  Result<std::optional<std::string_view>> Next() { return lines_.Next(); }
  // Number of the line Next gave last, from 1 on.
  std::size_t number() const { return lines_.number(); }
  // Share of the file read so far; nothing when its size is not known.
  std::optional<double> progress() const;

 private:
  struct Close {
    void operator()(void* file) const;
  };
  TraceLines(void* file, const std::string& path, std::size_t size);

  std::unique_ptr<void, Close> file_;  // zlib's own.
  std::size_t size_ = 0;               // Bytes of the file itself; 0: unknown.
  LineReader lines_;
};

}  // namespace spillway
