// SPDX-License-Identifier: Apache-2.0
// Tests whether a driver passes on memory with another process's data in it. A child process fills
// memory with a pattern, then exits, or frees it and stays; the parent takes new memory and
// searches it for the pattern.
//
// Finding nothing proves nothing about memory that was not searched.
#pragma once

#include <string>

#include "device/gpu/gpu_device.h"
#include "spillway/units.h"

namespace spillway {

enum class HowLeft : std::uint8_t { kExit, kRelease };

// The result of SearchStale.
struct StaleSearch {
  std::string trouble = {};  // Why it could not be done. Empty: it was done.
  Bytes left = 0;            // Bytes the child filled.
  Bytes searched = 0;        // Bytes of new memory.
  Bytes found = 0;           // Bytes with the child's pattern.
  Bytes not_zero = 0;        // Bytes that are not zero, of any content.
};

// Takes up to `most` bytes, at most a quarter of the free memory. The child runs this same program.
StaleSearch SearchStale(GpuDevice* device, HowLeft how, Bytes most);

// The child's part, by its command line. Returns its exit status.
struct LeaveOptions {
  std::string device;
  std::string how;      // "exit" or "release".
  std::string pattern;  // 32 hexadecimal digits.
  Bytes bytes = 0;
};
int LeaveBytes(const LeaveOptions& options);

}  // namespace spillway
