// SPDX-License-Identifier: Apache-2.0
// The state of a Gpu between two resets. For gpu.cc and gpu_calls.cc only.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "fakes/gpu/gpu.h"

namespace fakes {

struct Gpu::State {
  State(Options with, std::mutex* mutex)
      : options(std::move(with)),
        memory(options, &complaints),
        queues(options, &memory, &complaints, mutex) {}

  const Options options;
  Complaints complaints;
  Faults faults;
  Memory memory;
  std::array<int, 8> retained{};  // Contexts, by card.
  std::set<std::uint64_t> modules;
  std::uint64_t last_module = 0x10000;
  std::uint64_t garble = 0;  // Copies to a device until one is garbled; 0: none.
  // Freed by a call that was told to fail.
  std::set<std::pair<std::string, std::uint64_t>> gone;
  Queues queues;
};

}  // namespace fakes
