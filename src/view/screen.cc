// SPDX-License-Identifier: Apache-2.0
#include "view/screen.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace spillway::view {

namespace {

constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l\x1b[2J";  // Alternate screen, no cursor.
constexpr std::string_view kLeave = "\x1b[?25h\x1b[?1049l";
constexpr std::string_view kHome = "\x1b[H";
// Written before the text: after a line as wide as the screen it would erase the last character.
constexpr std::string_view kClearLine = "\x1b[2K";
constexpr std::string_view kClearRestOfScreen = "\x1b[J";

constexpr int kStuckMs = 100;

std::string_view Env(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool LocaleIsUtf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string_view value = Env(name);
    if (value.empty()) continue;
    return value.find("UTF-8") != value.npos || value.find("utf8") != value.npos;
  }
  return false;
}

}  // namespace

bool WriteAll(int fd, std::string_view text) {
  // A pipe that polls ready takes this much without blocking.
  constexpr std::size_t kPiece = 4096;
  while (!text.empty()) {
    pollfd ready{fd, POLLOUT, 0};
    const int events = ::poll(&ready, 1, kStuckMs);
    if (events == 0) return true;
    const ssize_t n = events < 0 ? -1 : ::write(fd, text.data(), std::min(text.size(), kPiece));
    if (n >= 0) {
      text.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno != EINTR && errno != EAGAIN) {
      return false;
    }
  }
  return true;
}

bool Screen::Possible(int fd) {
  const std::string_view term = Env("TERM");
  return ::isatty(fd) == 1 && !term.empty() && term != "dumb";
}

Screen::Screen(int fd) : fd_(fd) { (void)WriteAll(fd_, kEnter); }

Screen::~Screen() { (void)WriteAll(fd_, kLeave); }

Paper Screen::paper() const {
  Paper paper;
  winsize size{};
  if (::ioctl(fd_, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
    paper.width = size.ws_col;
    paper.height = size.ws_row;
  }
  paper.color = Env("NO_COLOR").empty();
  paper.unicode = LocaleIsUtf8();
  return paper;
}

bool Screen::Draw(const std::vector<std::string>& lines) {
  std::string frame(kHome);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) frame += "\r\n";
    frame += kClearLine;
    frame += lines[i];
  }
  frame += kClearRestOfScreen;
  return WriteAll(fd_, frame);
}

}  // namespace spillway::view
