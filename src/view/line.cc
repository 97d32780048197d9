// SPDX-License-Identifier: Apache-2.0
#include "view/line.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/printable.h"

namespace spillway::view {

namespace {

bool BeginsCharacter(char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }

std::size_t Columns(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, BeginsCharacter));
}

// The longest beginning of `text` with at most `most` columns.
std::string_view Cut(std::string_view text, std::size_t most) {
  std::size_t columns = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (BeginsCharacter(text[i]) && columns++ == most) return text.substr(0, i);
  }
  return text;
}

// Apostrophes are harmless here: the text is not shown in quotes.
std::string WithApostrophes(std::string_view text) {
  constexpr std::string_view kEscaped = "\\x27";
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escaped = text.substr(i, kEscaped.size()) == kEscaped;
    out += escaped ? '\'' : text[i];
    if (escaped) i += kEscaped.size() - 1;
  }
  return out;
}

// The sixteen colours that every terminal maps to something readable on its background; never black
// or white.
std::string_view CodeOf(Ink ink) {
  switch (ink) {
    case Ink::kPlain:
      return "";
    case Ink::kStrong:
      return "1";
    case Ink::kFaint:
      return "2";
    case Ink::kOurs:
      return "34";
    case Ink::kOthers:
      return "33";
    case Ink::kRelaxed:
      return "32";
    case Ink::kNormal:
      return "36";
    case Ink::kPressure:
      return "33";
    case Ink::kCritical:
      return "35";
    case Ink::kEmergency:
      return "1;31";
  }
  return "";
}

}  // namespace

Ink InkOf(Level level) {
  return static_cast<Ink>(static_cast<int>(Ink::kRelaxed) + static_cast<int>(level));
}

Line& Line::Add(std::string_view text, Ink ink) {
  pieces_.push_back({std::string(text), ink});
  columns_ += Columns(text);
  return *this;
}

Line& Line::AddForeign(std::string_view bytes, std::size_t most, Ink ink) {
  constexpr std::string_view kMore = "..";
  std::string shown = WithApostrophes(Printable(bytes, most + 1));
  if (shown.size() > most) {
    shown.resize(most - std::min(most, kMore.size()));
    shown += kMore.substr(0, most);
  }
  return Add(shown, ink);
}

Line& Line::To(std::size_t column) {
  if (columns_ < column) Add(std::string(column - columns_, ' '));
  return *this;
}

std::string Line::Finish(std::size_t width, bool color) const {
  std::string out;
  std::size_t left = width;
  for (const Piece& piece : pieces_) {
    const std::string_view text = Cut(piece.text, left);
    left -= Columns(text);
    const std::string_view code = color ? CodeOf(piece.ink) : "";
    out += code.empty() || text.empty() ? std::string(text)
                                        : fmt::format("\x1b[{}m{}\x1b[0m", code, text);
  }
  return out;
}

}  // namespace spillway::view
