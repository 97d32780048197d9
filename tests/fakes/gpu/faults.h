// SPDX-License-Identifier: Apache-2.0
// Which call of a fake GPU library fails, and how: the n-th of all, or of one
// function, once or from then on. Functions are named as in GpuDriver's table
// ("memory_map"), whatever the library calls them.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace fakes {

class Faults {
 public:
  // Counts the call; returns 0 or the code that the call must return.
  int Enter(const std::string& function);

  // The n-th call from now on; 0 cancels the fault.
  void FailCall(std::uint64_t n, int code, bool for_good);
  void FailFunction(const std::string& function, std::uint64_t n, int code, bool for_good);
  // Every call answers `code`; 0: the card is back.
  void Lose(int code) { lost_ = code; }

  std::uint64_t calls() const { return calls_; }
  std::uint64_t calls(const std::string& function) const;
  // Whether every call fails from here on, so that no memory can be freed.
  bool out_of_reach() const {
    return lost_ != 0 || (fault_.for_good && fault_.Answer(calls_ + 1) != 0);
  }
  // The function that was told to fail last.
  const std::string& failed() const { return failed_; }

 private:
  struct Fault {
    std::uint64_t at = 0;  // Counted from the first call on; 0: none.
    int code = 0;
    bool for_good = false;
    int Answer(std::uint64_t call) const {
      return at != 0 && (for_good ? call >= at : call == at) ? code : 0;
    }
  };

  std::uint64_t calls_ = 0;
  std::map<std::string, std::uint64_t> calls_of_;
  Fault fault_;
  std::map<std::string, Fault> fault_of_;
  int lost_ = 0;
  std::string failed_;
};

// Whether after this code no queued work is ever done.
bool EndsTheWork(int code);

// The driver's words for a code; null: it has none.
const char* Words(int code);

}  // namespace fakes
