// SPDX-License-Identifier: Apache-2.0
#include "cli/ask_device.h"

#include <chrono>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/parse.h"
#include "base/run_dir.h"

namespace spillway {

Result<std::string> OnlyDevice(const std::string& otherwise) {
  const std::vector<std::string> devices = AskableDevices(RunDirsToSearch());
  if (devices.empty()) return otherwise;
  if (devices.size() == 1) return devices.front();
  return Error{Code::kInvalidArgument,
               fmt::format("memory of several devices can be asked for: {}; name one",
                           fmt::join(devices, ", "))};
}

DeviceRoom AskForRoom(const DeviceAsk& ask) {
  const auto start = std::chrono::steady_clock::now();
  DeviceReader reader(ask.device);
  const auto read = [&] {
    std::optional<Reading> reading = reader.Read();
    return reading || !ask.read ? reading : ask.read();
  };
  const std::optional<Reading> before = read();
  AskOptions options;
  options.run_dirs = RunDirsToSearch();
  options.device = ask.device.id;
  options.bytes = ask.bytes - std::min(ask.bytes, before ? before->free : 0);
  options.keep = ask.bytes;
  options.within = ask.within;
  options.hold = ask.hold;
  DeviceRoom got{.room = Ask(options)};
  if (before) {
    const std::optional<Reading> after = read();
    if (after) got.free = after->free;
  }
  got.took = std::chrono::steady_clock::now() - start;
  got.enough = got.free.value_or(got.room.freed()) >= ask.bytes;
  if (got.enough) return got;
  const std::string what =
      got.free ? fmt::format("only {} of {} are free on device '{}'", FormatBytes(*got.free),
                             FormatBytes(ask.bytes), ask.device.name())
               : fmt::format(
                     "only {} of {} were given on device '{}', and what is free on it "
                     "cannot be read here ({})",
                     FormatBytes(got.room.freed()), FormatBytes(ask.bytes), ask.device.name(),
                     reader.why_not());
  const std::string why = got.room.why_not_more();
  got.why_not = fmt::format("{}: {}", what,
                            got.room.answers().empty() ? "no cache listens there"
                            : why.empty() ? "other processes have taken the rest meanwhile"
                                          : why);
  return got;
}

std::vector<std::string> Describe(const AskedRoom& room) {
  std::vector<std::string> lines;
  for (const AskedRoom::Answer& answer : room.answers()) {
    lines.push_back(fmt::format("pid {} gave {} of the {} it held{}{}", answer.pid,
                                FormatBytes(answer.freed), FormatBytes(answer.held),
                                answer.why_not_more.empty() ? "" : ": ", answer.why_not_more));
  }
  return lines;
}

}  // namespace spillway
