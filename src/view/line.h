// SPDX-License-Identifier: Apache-2.0
// One line of a terminal: pieces of text, each with an ink, cut to a width. Text from outside is
// escaped (AddForeign). Colour codes are added only at the end, so that lengths count visible
// columns.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "spillway/mode.h"

namespace spillway::view {

// What a piece of text means; CodeOf gives it a colour.
enum class Ink : std::uint8_t {
  kPlain,
  kStrong,
  kFaint,
  kOurs,
  kOthers,
  kRelaxed,
  kNormal,
  kPressure,
  kCritical,
  kEmergency
};
// The ink of a level's name.
Ink InkOf(Level level);

// Built piece by piece, then finished once.
class Line {
 public:
  // Adds our own printable text: UTF-8, each character one column wide.
  Line& Add(std::string_view text, Ink ink = Ink::kPlain);
  // Adds arbitrary bytes: control and non-ASCII bytes are escaped. Uses at most `most` columns.
  Line& AddForeign(std::string_view bytes, std::size_t most, Ink ink = Ink::kPlain);
  // Adds spaces up to that column.
  Line& To(std::size_t column);

  std::size_t columns() const { return columns_; }
  // The line, cut to `width` columns, with colour codes or as plain text.
  std::string Finish(std::size_t width, bool color) const;

 private:
  struct Piece {
    std::string text;
    Ink ink;
  };
  std::vector<Piece> pieces_;
  std::size_t columns_ = 0;
};

}  // namespace spillway::view
