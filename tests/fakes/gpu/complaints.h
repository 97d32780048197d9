// SPDX-License-Identifier: Apache-2.0
// Mistakes of a program that a real driver punishes, sooner or later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

namespace fakes {

// "0x7f12", for addresses in texts.
struct Hex {
  std::uint64_t value = 0;
};
inline std::ostream& operator<<(std::ostream& to, Hex hex) {
  return to << "0x" << std::hex << hex.value << std::dec;
}

template <typename... Parts>
std::string Text(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

// The first of them, and how many more.
class Complaints {
 public:
  template <typename... Parts>
  void Add(const Parts&... parts) {
    if (count_++ < kMost) lines_.push_back(Text(parts...));
  }
  std::string text() const {
    std::string all;
    for (const std::string& line : lines_) all += line + "\n";
    if (count_ > kMost) all += Text("and ", count_ - kMost, " more\n");
    return all;
  }
  void Clear() {
    lines_.clear();
    count_ = 0;
  }

 private:
  static constexpr std::size_t kMost = 20;
  std::vector<std::string> lines_;
  std::size_t count_ = 0;
};

}  // namespace fakes
