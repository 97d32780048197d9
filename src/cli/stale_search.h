// Whether a driver hands out memory with what another process left in it: a child
// fills memory with a pattern and ends, or returns it and lives on; then the parent
// takes new memory and looks for the pattern there.
//
// That nothing was found proves nothing about memory that was not looked at.
#pragma once

#include <string>

#include "device/gpu/gpu_device.h"
#include "spillway/units.h"

namespace spillway {

enum class HowLeft : std::uint8_t { kExit, kRelease };

struct StaleSearch {
  std::string trouble = {};  // Empty: it was done.
  Bytes left = 0;            // By the child.
  Bytes searched = 0;        // Of new memory.
  Bytes found = 0;           // Of the child's pattern, in it.
  Bytes not_zero = 0;        // Whatever it is, in it.
};

// Takes up to `most` bytes, at most a quarter of what is free. The child is this
// program again.
StaleSearch SearchStale(GpuDevice* device, HowLeft how, Bytes most);

// The child's part, by its arguments. Returns its exit status.
struct LeaveOptions {
  std::string device;
  std::string how;      // "exit" or "release".
  std::string pattern;  // 32 hexadecimal digits.
  Bytes bytes = 0;
};
int LeaveBytes(const LeaveOptions& options);

}  // namespace spillway
