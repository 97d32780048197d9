// The thin end of the table: a terminal that shows lines, and a plain file
// descriptor that takes them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "view/render.h"

namespace spillway::view {

// Whether somebody still reads. A reader that stands still is waited for a
// tenth of a second; then the rest of the text is dropped.
[[nodiscard]] bool WriteAll(int fd, std::string_view text);

// While it lives the terminal shows what is drawn and nothing else; then it is
// as it was before.
class Screen {
 public:
  // Whether a table can be drawn there at all.
  static bool Possible(int fd);

  explicit Screen(int fd);
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Its size now. Colour unless NO_COLOR is set; more than ASCII where the
  // locale says UTF-8.
  Paper paper() const;
  // False: nobody watches any more.
  [[nodiscard]] bool Draw(const std::vector<std::string>& lines);

 private:
  const int fd_;
};

}  // namespace spillway::view
