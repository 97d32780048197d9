// SPDX-License-Identifier: Apache-2.0
// The options of a fake GPU library, as text: a test gives it by a control, and to
// a program that it runs by the environment variable SPILLWAY_FAKE_GPU, which is
// read when the library is loaded.
//
// Lines, or parts between semicolons, each a name and its value:
//
//   cards N         how many cards (1); each has the memory named
//   total BYTES     of a card (256 MiB); virtual, taken from the host as used
//   granularity BYTES   of physical memory (2 MiB)
//   name TEXT
//   uuid TEXT       32 hexadecimal digits; a card's ordinal is added to the last byte
//   pci TEXT        of the first card; a card's ordinal is added to its bus
//   version N       the driver's (13000)
//   seed N          of the order in which streams are run
//   stale 0|1       whether new memory holds its old contents (0: zeros)
//   thread 0|1      whether a thread runs queued operations (0: the calling thread)
//   strict 0|1      whether a call that frees something and is told to fail does
//                   nothing (0: it returns the error, but has freed it)
//   foreign BYTES   what others hold of every card from the beginning (0)
//   backing DIR     each piece of physical memory is a file in this folder, so that
//                   what a process leaves, however it ends, can be handed to
//                   another: with `stale`
//   together FILE   processes that name the same file share the cards: what one has
//                   taken is not free for another, until it ends
//   vmm HOW         good; or the defects of some drivers, for memory that is created
//                   and mapped, not for memory that is allocated: `keeps` (it stays
//                   taken while its addresses are reserved), `leaks` (it stays
//                   taken), `forgets` (mapped again, it holds something else),
//                   `refuses` (access is refused)
#pragma once

#include <cstdint>
#include <string>

namespace fakes {

struct Options {
  int cards = 1;
  std::uint64_t total = 256ULL << 20;
  std::uint64_t granularity = 2ULL << 20;
  std::string name = "Fake GPU";
  std::string uuid = "5b1e0c2f-7a44-4d8e-9c31-d2f60a8b7e00";
  std::string pci = "0000:41:00.0";
  int version = 13000;
  std::uint64_t seed = 1;
  bool stale = false;
  bool thread = false;
  bool strict = false;
  std::uint64_t foreign = 0;
  std::string backing;
  std::string together;
  enum class Vmm { kGood, kKeeps, kLeaks, kForgets, kRefuses };
  Vmm vmm = Vmm::kGood;
};

// Stops the program at an unknown name or value: a mistake in a test must not look
// like an answer.
Options ParseOptions(const std::string& text);

}  // namespace fakes
