// SPDX-License-Identifier: Apache-2.0
#include "view/keys.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <string_view>

namespace spillway::view {

namespace {

using Kind = KeyPress::Kind;

struct Sequence {
  std::string_view text;  // The text after ESC [ or ESC O.
  Kind kind;
};
constexpr std::array kSequences = {
    Sequence{"A", Kind::kUp},        Sequence{"B", Kind::kDown}, Sequence{"5~", Kind::kPageUp},
    Sequence{"6~", Kind::kPageDown}, Sequence{"H", Kind::kHome}, Sequence{"F", Kind::kEnd},
    Sequence{"1~", Kind::kHome},     Sequence{"4~", Kind::kEnd},
};

// How many characters of `rest`, which follows an ESC, belong to its sequence.
std::size_t LengthOf(std::string_view rest) {
  if (rest.empty() || (rest[0] != '[' && rest[0] != 'O')) return 0;
  for (std::size_t i = 1; i < rest.size(); ++i) {
    if (rest[i] >= 0x40 && rest[i] <= 0x7e) return i + 1;
  }
  return rest.size();
}

std::optional<KeyPress> PlainKey(char c) {
  if (c == '\r' || c == '\n') return KeyPress{Kind::kEnter, 0};
  if (c == 0x7f || c == '\b') return KeyPress{Kind::kBackspace, 0};
  if (c >= 0x20 && c < 0x7f) return KeyPress{Kind::kText, c};
  return std::nullopt;
}

}  // namespace

std::vector<KeyPress> KeysIn(const std::string& typed) {
  std::vector<KeyPress> keys;
  const std::string_view all(typed);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] != 0x1b) {
      if (const auto key = PlainKey(all[i])) keys.push_back(*key);
      continue;
    }
    const std::size_t length = LengthOf(all.substr(i + 1));
    if (length == 0) {
      keys.push_back({Kind::kEscape, 0});
      continue;
    }
    const std::string_view behind = all.substr(i + 2, length - 1);
    for (const Sequence& sequence : kSequences) {
      if (sequence.text == behind) keys.push_back({sequence.kind, 0});
    }
    i += length;
  }
  return keys;
}

RawInput::RawInput(int fd) : fd_(fd) {
  if (::tcgetattr(fd_, &before_) != 0) return;
  termios raw = before_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  // A suspended program would leave the terminal in raw mode.
  raw.c_cc[VSUSP] = _POSIX_VDISABLE;
  raw.c_cc[VQUIT] = _POSIX_VDISABLE;
  changed_ = ::tcsetattr(fd_, TCSANOW, &raw) == 0;
}

RawInput::~RawInput() {
  if (changed_) ::tcsetattr(fd_, TCSANOW, &before_);
}

std::vector<KeyPress> RawInput::Read(bool* gone) const {
  pollfd ready{fd_, POLLIN, 0};
  *gone = false;
  if (::poll(&ready, 1, 0) <= 0) return {};
  std::array<char, 256> buffer;
  const ssize_t n = ::read(fd_, buffer.data(), buffer.size());
  *gone = n == 0 || (ready.revents & (POLLHUP | POLLERR)) != 0;
  if (n <= 0) return {};
  return KeysIn(std::string(buffer.data(), static_cast<std::size_t>(n)));
}

}  // namespace spillway::view
