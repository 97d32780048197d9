// SPDX-License-Identifier: Apache-2.0
// Output: a terminal that shows lines, and writing to a plain file descriptor.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "view/render.h"

namespace spillway::view {

// Writes text. False: the reader has closed. A reader that does not read is waited for a tenth of a
// second; then the rest of the text is dropped.
[[nodiscard]] bool WriteAll(int fd, std::string_view text);

// While it exists, the terminal shows only what is drawn. Afterwards its old content is restored.
class Screen {
 public:
  // Whether the descriptor is a terminal that can show a table.
  static bool Possible(int fd);

  explicit Screen(int fd);
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // The terminal's present size. Colour unless NO_COLOR is set; Unicode if the locale is UTF-8.
  Paper paper() const;
  // False: the terminal is gone.
  [[nodiscard]] bool Draw(const std::vector<std::string>& lines);

 private:
  const int fd_;
};

}  // namespace spillway::view
