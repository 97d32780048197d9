// SPDX-License-Identifier: Apache-2.0
// What several processes have taken of the same cards: a file that all of them map,
// with a line for each. The line of a process that has ended, in whatever way, does not
// count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace fakes {

inline constexpr std::size_t kCardsMax = 8;

class Together {
 public:
  // Stops the program if the file can't be used: no answer would be right.
  explicit Together(const std::string& file);
  ~Together();
  Together(const Together&) = delete;
  Together& operator=(const Together&) = delete;

  // Records how much of a card this process has now.
  void Have(std::size_t card, std::uint64_t bytes);
  // How much of it all other living processes have.
  std::uint64_t Others(std::size_t card) const;

 private:
  struct Line;
  struct Table;

  Table* table_ = nullptr;
  Line* mine_ = nullptr;
};

}  // namespace fakes
