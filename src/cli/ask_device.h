// SPDX-License-Identifier: Apache-2.0
// Asks the caches on a device for memory on behalf of a command, and describes the result: how much
// is free, how much each cache gave.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ask/client.h"
#include "cli/named_device.h"
#include "spillway/pressure.h"
#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

// The only device whose caches can be asked for memory, or `otherwise` if there is none. Several:
// an error that lists them.
Result<std::string> OnlyDevice(const std::string& otherwise);

// The arguments of AskForRoom.
struct DeviceAsk {
  NamedDevice device;
  // Reads how much is free on the device, if this machine's pressure sources cannot. May be empty.
  std::function<std::optional<Reading>()> read = {};
  Bytes bytes = 0;  // How much must be free in the end.
  Duration within{};
  Duration hold{};
};
// The result of AskForRoom.
struct DeviceRoom {
  AskedRoom room = {};             // Keeps the reservation.
  std::optional<Bytes> free = {};  // On the device, afterwards. Empty: it cannot be read.
  Duration took{};
  bool enough = false;
  std::string why_not = {};  // Empty: it is enough.
};
// Asks for the memory that is lacking, and reserves all that is wanted.
DeviceRoom AskForRoom(const DeviceAsk& ask);

// One line for each cache: "pid 4711 gave 10 GiB of 14 GiB: the rest is leased".
std::vector<std::string> Describe(const AskedRoom& room);

}  // namespace spillway
