// SPDX-License-Identifier: Apache-2.0
#include "bench/support/card_neighbour.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "device/cpu/card.h"

namespace spillway::bench {

namespace {
constexpr Bytes kStep = 4 * kMiB;
constexpr auto kPause = std::chrono::microseconds(200);
constexpr auto kPatience = std::chrono::minutes(1);

void WriteAll(int fd, const void* data, std::size_t bytes) {
  if (::write(fd, data, bytes) != static_cast<ssize_t>(bytes)) std::abort();
}
bool ReadAll(int fd, void* data, std::size_t bytes) {
  return ::read(fd, data, bytes) == static_cast<ssize_t>(bytes);
}
}  // namespace

CardNeighbour::CardNeighbour(const std::string& card, Bytes total) {
  std::array<int, 2> orders{};
  std::array<int, 2> answers{};
  if (::pipe2(orders.data(), O_CLOEXEC) != 0 || ::pipe2(answers.data(), O_CLOEXEC) != 0) {
    std::abort();
  }
  pid_ = ::fork();
  if (pid_ == 0) {
    ::close(orders[1]);
    ::close(answers[0]);
    Live(card, total, orders[0], answers[1]);
  }
  ::close(orders[0]);
  ::close(answers[1]);
  orders_ = orders[1];
  answers_ = answers[0];
  Hold(0);
}

CardNeighbour::~CardNeighbour() {
  ::close(orders_);
  ::close(answers_);
  int status = 0;
  ::waitpid(pid_, &status, 0);
}

double CardNeighbour::Hold(Bytes bytes) {
  double waited = -1;
  WriteAll(orders_, &bytes, sizeof bytes);
  if (!ReadAll(answers_, &waited, sizeof waited)) return -1;
  return waited;
}

void CardNeighbour::Live(const std::string& name, Bytes total, int orders, int answers) {
  CardOptions options;
  options.name = name;
  options.total = total;
  auto card = Card::Open(options);
  if (!card) std::_Exit(1);
  Bytes wanted = 0;
  while (ReadAll(orders, &wanted, sizeof wanted)) {
    using Clock = std::chrono::steady_clock;  // real world: a bench
    double waited = 0;
    const auto until = Clock::now() + kPatience;
    while ((*card)->held() > wanted) (*card)->Give(std::min(kStep, (*card)->held() - wanted));
    while ((*card)->held() < wanted && waited >= 0) {
      const auto began = Clock::now();
      while (!(*card)->Take(std::min(kStep, wanted - (*card)->held()))) {
        if (Clock::now() > until) {
          waited = -1;
          break;
        }
        std::this_thread::sleep_for(kPause);  // real world: a bench
      }
      if (waited >= 0)
        waited += std::chrono::duration<double, std::milli>(Clock::now() - began).count();
      std::this_thread::sleep_for(kPause);  // real world: a bench
    }
    WriteAll(answers, &waited, sizeof waited);
  }
  std::_Exit(0);
}

}  // namespace spillway::bench
