// The Giver lets neighbours ask a cache for memory of its device: it answers the
// ask server out of the cache's core, on the server's thread. Promises count by
// readings, so they hold between Start and Stop; giving back works at any time.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "ask/server.h"
#include "device/device.h"
#include "spillway/options.h"
#include "spillway/stats.h"

namespace spillway {

class Core;

// What askers call the device: a GPU's uuid, a virtual card's name.
std::string DeviceId(const Device& device);

class Giver final : private AskHandler {
 public:
  // `core` is borrowed. Empty: nobody else uses its device, or `ask` is off.
  // Where it should listen and can't, it says so once in the log, and in the
  // stats: a cache nobody can ask is still a cache.
  static std::unique_ptr<Giver> Open(const Options& options, std::shared_ptr<Device> device,
                                     Core* core);
  ~Giver() override;

  void CountInto(AskStats* stats) const;

 private:
  Giver(const Options& options, std::shared_ptr<Device> device, Core* core);
  Status Listen(const Options& options);

  Holdings Held() override;
  Given Give(Bytes bytes) override;
  void Gave(Bytes bytes, Duration took) override;
  void Promise(std::uint64_t who, Bytes bytes) override;
  std::optional<Bytes> OthersNow();

  Core* const core_;
  const std::shared_ptr<Device> device_;
  // Pressure comes from the device itself: then we can look for ourselves.
  const bool can_look_;
  std::string trouble_;                // Constant once open.
  std::unique_ptr<AskServer> server_;  // Goes first.
};

}  // namespace spillway
