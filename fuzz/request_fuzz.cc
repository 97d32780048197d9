// SPDX-License-Identifier: Apache-2.0
// Damaged requests. For any bytes, in any pieces: no crash, no byte consumed twice, and the same
// arguments as when they arrive at once.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "wire/glob.h"
#include "wire/request.h"

using spillway::wire::RequestLimits;
using spillway::wire::RequestParser;
using Outcome = RequestParser::Outcome;

namespace {

// All requests in `bytes`, which the parser sees in steps of `step`.
std::vector<std::string> Read(std::string_view bytes, std::size_t step,
                              const RequestLimits& limits) {
  std::vector<std::string> words;
  RequestParser parser;
  std::size_t begin = 0;
  std::size_t shown = 0;
  for (;;) {
    const std::string_view frame = bytes.substr(begin, shown - begin);
    const Outcome outcome = parser.Parse(frame, limits);
    if (outcome == Outcome::kMore) {
      if (shown == bytes.size()) return words;
      shown = std::min(shown + step, bytes.size());
      continue;
    }
    if (outcome == Outcome::kError) {
      words.push_back("error " + parser.error());
      return words;
    }
    if (outcome == Outcome::kLarge) {
      parser.GoOn();
      continue;
    }
    if (parser.consumed() == 0 || parser.consumed() > frame.size()) std::abort();
    for (std::size_t i = 0; outcome == Outcome::kRequest && i < parser.count(); ++i) {
      words.emplace_back(parser.arg(i, frame));
    }
    begin += parser.consumed();
    parser.Next();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  RequestLimits limits;
  limits.strangers = (data[0] & 1) != 0;
  limits.large_from = (data[0] & 2) != 0 ? 16 : 0;
  limits.bulk_max = 1 << 20;
  limits.line_max = 256;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::vector<std::string> whole = Read(bytes, bytes.size(), limits);
  // An endless line is noticed earlier when it arrives in small pieces.
  const std::vector<std::string> pieces = Read(bytes, std::size_t{data[1]} + 1, limits);
  const bool ends_in_error = (!whole.empty() && whole.back().starts_with("error")) ||
                             (!pieces.empty() && pieces.back().starts_with("error"));
  if (!ends_in_error && whole != pieces) std::abort();
  const std::size_t half = bytes.size() / 2;
  spillway::wire::GlobMatches(bytes.substr(0, half), bytes.substr(half));
  return 0;
}
