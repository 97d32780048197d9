// What a demo can be told.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway::demo {

struct DemoOptions {
  std::string title = "spillwayd --demo";
  Duration length = std::chrono::seconds(60);
  bool whole = false;                      // The whole story, however short.
  std::string device = "auto";             // "cpu", a GPU, or a GPU if there is one.
  std::optional<Bytes> card_bytes;         // Empty: DefaultDemoCardBytes().
  std::string record;                      // A CSV file; empty: none.
  std::string trace;                       // All turns, for `spillway replay`; empty: none.
  std::string daemon;                      // `spillwayd`; empty: the one beside this program.
  std::string squeeze;                     // `spillway`, likewise.
  std::string socket;                      // Empty: in a folder of the demo's own.
  std::optional<std::uint16_t> port;       // Empty: a free one.
  std::optional<std::uint16_t> http_port;  // Empty: 7380, or if that is taken a free one.
  int out = 1;                             // A terminal gets a table, all else lines.
  // By CheckDemoOptions: all is filled in; and why a GPU that is there is not played on.
  bool filled_in = false;
  std::string why_not_gpu;
};

inline constexpr Duration kDemoLengthMin = std::chrono::seconds(1);
inline constexpr Duration kDemoLengthMax = std::chrono::hours(24);
inline constexpr Bytes kDemoCardMin = 16 * kMiB;

// An eighth of what this machine has free, at most 512 MiB; and no more than an
// eighth of the disk. On a GPU, with so much free: an eighth of that, at most 4 GiB.
Result<Bytes> DefaultDemoCardBytes(std::optional<Bytes> gpu_free = {});
// The options with everything filled in, if they can be played here.
Result<DemoOptions> CheckDemoOptions(const DemoOptions& options);

}  // namespace spillway::demo
