// The Sampler reads a pressure source on a thread of its own, again and again,
// and hands each reading on. A source that hangs hangs only this thread:
// stopping waits for it a bounded time and then leaves it behind.
#pragma once

#include <functional>
#include <memory>

#include "spillway/pressure.h"
#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

class Sampler {
 public:
  using Sink = std::function<void(const Result<Reading>&)>;

  // Begins at once. `sink` is called on the sampler's thread.
  Sampler(std::shared_ptr<PressureSource> source, Duration period, Sink sink);
  // After this the sink is not called any more.
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

 private:
  struct Shared;
  const std::shared_ptr<Shared> shared_;
};

}  // namespace spillway
