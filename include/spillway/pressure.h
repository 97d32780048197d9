// A pressure source answers one question: how much of this memory is free now?
// A failed reading is never 0 % and never 100 %: it is an Error, and the
// governor calls that UNKNOWN.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "spillway/export.h"
#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

struct Reading {
  Bytes total = 0;
  Bytes free = 0;
};

class SPILLWAY_API PressureSource {
 public:
  virtual ~PressureSource();

  // Called from the sampler's thread and from Apply. May be slow; the engine
  // never waits for it while it holds anything.
  virtual Result<Reading> Read() = 0;

  // Stable name, as shown in logs and stats ("card:demo", "manual").
  virtual std::string_view name() const = 0;
};

}  // namespace spillway
