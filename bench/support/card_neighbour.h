// SPDX-License-Identifier: Apache-2.0
// A neighbour on a shared virtual card: a process that holds as much memory as it is told to. It
// takes the memory in steps and waits while the card is full.
#pragma once

#include <sys/types.h>

#include <string>

#include "spillway/units.h"

namespace spillway::bench {

class CardNeighbour {
 public:
  // Forks, so it must be called before any thread starts. Makes the card, of `total` bytes.
  CardNeighbour(const std::string& card, Bytes total);
  ~CardNeighbour();
  CardNeighbour(const CardNeighbour&) = delete;
  CardNeighbour& operator=(const CardNeighbour&) = delete;

  // Returns when the process holds that much: how long it waited for memory, in ms. Negative: it
  // did not get it within a minute.
  double Hold(Bytes bytes);

 private:
  [[noreturn]] static void Live(const std::string& card, Bytes total, int orders, int answers);

  pid_t pid_ = -1;
  int orders_ = -1;
  int answers_ = -1;
};

}  // namespace spillway::bench
