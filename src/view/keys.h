// What somebody types at a terminal, key by key. While a RawInput lives the
// terminal neither waits for the end of a line nor shows what is typed; then it is
// as it was before. Ctrl-C stays a signal.
#pragma once

#include <termios.h>

#include <cstdint>
#include <string>
#include <vector>

namespace spillway::view {

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

// All keys in what was typed. Sequences that are not known are passed over, and so
// is what is no ASCII; an ESC with nothing behind it is the key of that name.
std::vector<KeyPress> KeysIn(const std::string& typed);

class RawInput {
 public:
  explicit RawInput(int fd);
  ~RawInput();
  RawInput(const RawInput&) = delete;
  RawInput& operator=(const RawInput&) = delete;

  // What was typed since; never waits. `gone`: nobody types any more.
  std::vector<KeyPress> Read(bool* gone) const;

 private:
  const int fd_;
  bool changed_ = false;
  termios before_{};
};

}  // namespace spillway::view
