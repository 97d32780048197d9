// SPDX-License-Identifier: Apache-2.0
// A pressure source answers one question: how much of this memory is free now? A failed reading is
// an Error; the governor then reports pressure UNKNOWN. It is never taken for 0 % or 100 %.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "spillway/export.h"
#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

// The memory that a reading describes.
enum class Scope : std::uint8_t {
  kCard,        // A whole GPU or virtual card.
  kInstance,    // A part of a GPU with memory of its own (MIG).
  kPartition,   // A part of a GPU that shares the package's memory.
  kMachine,     // Host memory.
  kCgroup,      // Host memory within the limit of a control group.
  kFileSystem,  // The file system of the disk tier.
  kGiven        // A value given from outside: by a file, a constant or a program.
};
SPILLWAY_API std::string_view Name(Scope scope);

// Total and free bytes of one memory at one moment.
struct Reading {
  Bytes total = 0;
  Bytes free = 0;
  // Bytes the driver keeps for itself: part of `total`, never usable. Empty: the source does not
  // report them.
  std::optional<Bytes> reserved = {};
  Scope scope = Scope::kGiven;
  // Bytes of this memory that our own tier held at that moment, if the source knows. With it, our
  // own allocations and frees are not mistaken for those of other processes.
  std::optional<Bytes> held = {};

  // Used share of the usable memory: 1 - free / (total - reserved).
  SPILLWAY_API double pressure() const;
};

// Where pressure readings come from. Implement it to give a cache your own (Options::pressure).
class SPILLWAY_API PressureSource {
 public:
  virtual ~PressureSource();

  // Called from the monitor's threads and from Apply, by at most one thread at a time per source.
  // May be slow or hang: the engine holds no lock while it waits for a reading. Must not throw.
  // After an error the next call tries again from the start, so that a device that was lost and
  // returned is found.
  virtual Result<Reading> Read() = 0;

  // A file descriptor that polls POLLPRI when a new reading is worthwhile at once; -1: none. The
  // same for the lifetime of the source.
  virtual int wake_fd() const { return -1; }

  // Stable name, as shown in logs and stats ("card:demo", "nvml:0000:1b:00.0").
  virtual std::string_view name() const = 0;
};

}  // namespace spillway
