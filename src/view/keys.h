// SPDX-License-Identifier: Apache-2.0
// Keyboard input of a terminal, key by key. While a RawInput exists, the terminal neither waits for
// the end of a line nor echoes. Afterwards its old settings are restored. Ctrl-C stays a signal.
#pragma once

#include <termios.h>

#include <cstdint>
#include <string>
#include <vector>

namespace spillway::view {

// One key.
struct KeyPress {
  enum class Kind : std::uint8_t {
    kText,  // A printable character.
    kUp,
    kDown,
    kPageUp,
    kPageDown,
    kHome,
    kEnd,
    kEnter,
    kEscape,
    kBackspace
  };
  Kind kind = Kind::kText;
  char text = 0;
  bool operator==(const KeyPress&) const = default;
};

// All keys in the input. Unknown sequences and non-ASCII characters are skipped. An ESC without
// anything after it is the escape key.
std::vector<KeyPress> KeysIn(const std::string& typed);

// Sets the terminal to raw input for its lifetime.
class RawInput {
 public:
  explicit RawInput(int fd);
  ~RawInput();
  RawInput(const RawInput&) = delete;
  RawInput& operator=(const RawInput&) = delete;

  // The keys typed since the last call; never blocks. `gone`: the input has ended.
  std::vector<KeyPress> Read(bool* gone) const;

 private:
  const int fd_;
  bool changed_ = false;
  termios before_{};
};

}  // namespace spillway::view
