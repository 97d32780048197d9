// A pressure source answers one question: how much of this memory is free now?
// A failed reading is never 0 % and never 100 %: it is an Error, and the
// governor calls that UNKNOWN.
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

// What a reading speaks of.
enum class Scope : std::uint8_t {
  kCard,        // A whole card.
  kInstance,    // A part of one with memory of its own (MIG).
  kPartition,   // A part of one that shares the package's memory.
  kMachine,     // Host memory.
  kCgroup,      // Host memory as far as a control group lets us.
  kFileSystem,  // The file system under a disk tier.
  kGiven        // Somebody says so: a file, a constant, a program.
};
SPILLWAY_API std::string_view Name(Scope scope);

struct Reading {
  Bytes total = 0;
  Bytes free = 0;
  // What the driver keeps for itself; part of the total, never usable. Empty:
  // the source does not tell.
  std::optional<Bytes> reserved = {};
  Scope scope = Scope::kGiven;
  // What this process's tier held of it at that moment, where the source knows:
  // so our own comings and goings are not taken for somebody else's.
  std::optional<Bytes> held = {};

  // 1 - free / (total - reserved).
  SPILLWAY_API double pressure() const;
};

class SPILLWAY_API PressureSource {
 public:
  virtual ~PressureSource();

  // Called from the monitor's threads and from Apply, by one of them at a time
  // for each source. May be slow, may never return; the engine never waits for
  // it while it holds anything. Must not throw. After an error the next call
  // starts afresh: a device that was lost and is back is found again.
  virtual Result<Reading> Read() = 0;

  // A file descriptor that polls POLLPRI when it is worth reading at once; -1:
  // there is none. It stays the same while the source lives.
  virtual int wake_fd() const { return -1; }

  // Stable name, as shown in logs and stats ("card:demo", "nvml:0000:1b:00.0").
  virtual std::string_view name() const = 0;
};

}  // namespace spillway
