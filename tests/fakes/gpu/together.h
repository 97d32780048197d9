// What several processes have taken of the same cards: a file that all of them map,
// a line for each. The line of a process that has ended, however it did, is nobody's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace fakes {

inline constexpr std::size_t kCardsMax = 8;

class Together {
 public:
  // Stops the program where the file can't be used: no answer would be right.
  explicit Together(const std::string& file);
  ~Together();
  Together(const Together&) = delete;
  Together& operator=(const Together&) = delete;

  // This process has so much of a card now.
  void Have(std::size_t card, std::uint64_t bytes);
  // What all others that are still there have of it.
  std::uint64_t Others(std::size_t card) const;

 private:
  struct Line;
  struct Table;

  Table* table_ = nullptr;
  Line* mine_ = nullptr;
};

}  // namespace fakes
