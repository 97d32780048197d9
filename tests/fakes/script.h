// SPDX-License-Identifier: Apache-2.0
// The script that tells a fake driver library what to be. Each fake library has
// one of its own, set by its exported function
//
//   void spillway_fake_script(const char* text)
//
// and, when the library is loaded, from the environment variable
// SPILLWAY_FAKE_SCRIPT: either the text itself or "@" and the path of a file,
// which is then read again before every call, so that a test can change its mind
// about a program that runs (replace the file by renaming another over it).
//
// Lines, or parts between semicolons; figures are decimal, or `max` for all ones:
//
//   device PCI UUID [total N] [free N] [used N] [reserved N] [name WORD]
//          [partition N] [denied] [other]
//                        a card. Without `used`: total - free - reserved.
//                        denied: NVML may not open it; other: AMD SMI lists it
//                        as something that is no GPU
//   mig UUID [figures]    an instance of the card before it
//   hole                  an index of that card without an instance
//   fail FUNCTION CODE    this function answers CODE
//   hang FUNCTION [N]     does not answer until the script is another one; with
//                         N only the first N calls, and later ones do
//   throw FUNCTION        throws, as C++ under a C function may
//   lost                  every card is gone, as far as the driver can tell
//   drift N               free is N less in every answer than in the one before
//   freeze                free stays as the drift left it
//   wrong_size            NVML does not know the second version's layout
//
// Also exported: `int spillway_fake_users()`, how often the library is held
// initialised (CUDA: contexts held), `int spillway_fake_calls(const char*)`, how
// often a function was called, and `void spillway_fake_wait(const char*, int)`,
// which returns once it was called that often. All of it may be called from any
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#define FAKE_API extern "C" __attribute__((visibility("default")))

// The first statement of every fake function that returns a code.
#define FAKE_ENTER() \
  if (const int code_wanted = fakes::Enter(__func__); code_wanted != 0) return code_wanted

namespace fakes {

struct Pci {
  unsigned domain = 0, bus = 0, device = 0, function = 0;
  friend bool operator==(const Pci&, const Pci&) = default;
};
std::optional<Pci> ParsePci(const std::string& text);

struct Figures {
  std::uint64_t total = 0, free = 0, reserved = 0;
  std::optional<std::uint64_t> used;
};

struct Instance {
  std::string uuid;
  Figures figures;
};

struct Card {
  Pci pci;
  std::string uuid;
  std::string name = "Fake";
  Figures figures;
  std::vector<std::optional<Instance>> instances;  // Empty ones are holes.
  unsigned partition = 0;
  bool denied = false;
  bool other = false;
};

struct Script {
  std::vector<Card> cards;
  std::map<std::string, int> fail;
  std::map<std::string, std::uint64_t> hang;  // How many calls.
  std::set<std::string> raise;
  std::uint64_t drift = 0;
  bool frozen = false;
  bool lost = false;
  bool wrong_size = false;
};

// Counts the call, waits while the script says so, and returns the code to fail with,
// or 0.
int Enter(const char* function);

// The script as it is now.
std::shared_ptr<const Script> Now();

// The figures of one answer: with the drift, and `used` filled in.
Figures Answer(const Figures& figures);

// Changes the number of users. A new start after the last user has shut down makes all
// older handles invalid.
int AddUser(int change);
int users();

// Handles name a card or an instance by its UUID, in whatever order the script lists
// them. Empty: no handle of this library, or one from before a new start.
void* HandleOf(const std::string& uuid);
std::string UuidOf(void* handle);

// "the words for 15"; lives as long as the process.
const char* WordsFor(int code);

// Copies at most `size` bytes of text, including its terminator.
void Put(const std::string& text, char* into, std::size_t size);

}  // namespace fakes
