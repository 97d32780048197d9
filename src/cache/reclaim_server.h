// SPDX-License-Identifier: Apache-2.0
// Lets neighbours ask a cache for memory of its device: answers the ask server from the
// cache's core, on the server's thread. Reservations for peers are accounted with
// pressure readings, so they hold between Start and Stop; memory can be given back at
// any time.
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

// The device's name in the ask protocol: a GPU's UUID, a virtual card's name.
std::string DeviceId(const Device& device);

class ReclaimServer final : private AskHandler {
 public:
  // `core` is borrowed. Null: no other process uses its device, or the setting `ask` is
  // off. If the socket can't be opened, the log says so once and the stats name the
  // cause: the cache works without it.
  static std::unique_ptr<ReclaimServer> Open(const Options& options, std::shared_ptr<Device> device,
                                             Core* core);
  ~ReclaimServer() override;

  void CountInto(AskStats* stats) const;

 private:
  ReclaimServer(const Options& options, std::shared_ptr<Device> device, Core* core);
  Status Listen(const Options& options);

  Holdings Held() override;
  Given Give(Bytes bytes) override;
  void Gave(Bytes bytes, Duration took) override;
  void Reserve(std::uint64_t who, Bytes bytes) override;
  std::optional<Bytes> OthersNow();

  Core* const core_;
  const std::shared_ptr<Device> device_;
  // Pressure comes from the device itself, so others' memory can be read directly.
  const bool can_look_;
  std::string trouble_;                // Why the socket could not be opened. Constant.
  std::unique_ptr<AskServer> server_;  // Destroyed first.
};

}  // namespace spillway
