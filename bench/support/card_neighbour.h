// A neighbour on a shared virtual card: a process of its own that holds as much
// as it is told to, taking it in steps and waiting where the card is full.
#pragma once

#include <sys/types.h>

#include <string>

#include "spillway/units.h"

namespace spillway::bench {

class CardNeighbour {
 public:
  // Forks: before any thread is started. Makes the card, of `total` bytes.
  CardNeighbour(const std::string& card, Bytes total);
  ~CardNeighbour();
  CardNeighbour(const CardNeighbour&) = delete;
  CardNeighbour& operator=(const CardNeighbour&) = delete;

  // Returns when it holds that much: how long it waited for memory, in ms; a
  // negative number: it did not get it within a minute.
  double Hold(Bytes bytes);

 private:
  [[noreturn]] static void Live(const std::string& card, Bytes total, int orders, int answers);

  pid_t pid_ = -1;
  int orders_ = -1;
  int answers_ = -1;
};

}  // namespace spillway::bench
