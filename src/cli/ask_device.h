// Asking on behalf of a command: what is free on a device, what is given back, and
// what came of it, in words.
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

// The one device that can be asked for memory, or `otherwise` when there is
// none. With several: an error that names them.
Result<std::string> OnlyDevice(const std::string& otherwise);

struct DeviceAsk {
  NamedDevice device;
  // What is free on it, where the sources of this machine can't tell; may be empty.
  std::function<std::optional<Reading>()> read = {};
  Bytes bytes = 0;  // Wanted in all.
  Duration within{};
  Duration hold{};
};
struct DeviceRoom {
  AskedRoom room = {};             // Holds the grant.
  std::optional<Bytes> free = {};  // On the device, after it; empty: nothing can tell.
  Duration took{};
  bool enough = false;
  std::string why_not = {};  // Empty if it is enough.
};
// Asks for what is lacking and keeps free what is wanted.
DeviceRoom AskForRoom(const DeviceAsk& ask);

// "pid 4711 gave 10 GiB of 14 GiB: the rest is leased", a line for each.
std::vector<std::string> Describe(const AskedRoom& room);

}  // namespace spillway
