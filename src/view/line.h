// One line of a terminal: pieces of text with an ink each, cut at a width.
// Text from outside is made harmless (AddForeign); colour is a matter of the
// last moment, so that what is measured is what is seen.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "spillway/mode.h"

namespace spillway::view {

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
Ink InkOf(Level level);

class Line {
 public:
  // Printable text of ours, UTF-8, every character one column wide.
  Line& Add(std::string_view text, Ink ink = Ink::kPlain);
  // Anything: control and non-ASCII bytes are escaped, at most `most` columns.
  Line& AddForeign(std::string_view bytes, std::size_t most, Ink ink = Ink::kPlain);
  // Spaces up to that column.
  Line& To(std::size_t column);

  std::size_t columns() const { return columns_; }
  // At most `width` columns; with colour or as plain text.
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
