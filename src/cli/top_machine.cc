// SPDX-License-Identifier: Apache-2.0
#include "cli/top_machine.h"

#include <chrono>
#include <optional>
#include <utility>

#include "monitor/machine.h"
#include "monitor/probe.h"

namespace spillway {

namespace {

constexpr Duration kWithin = std::chrono::milliseconds(300);

std::string SpecOf(const ProbeRow& row) {
  if (!row.found) return row.kind;
  const std::string& device = row.found->device.empty() ? row.found->uuid : row.found->device;
  return device.empty() ? row.kind : row.kind + ":" + device;
}

}  // namespace

TopMachine::TopMachine() {
  const Machine machine = Machine::FromEnvironment();
  const std::vector<ProbeRow> rows = ProbeSources(machine, {});
  std::vector<std::string> specs;
  for (const ProbeRow* row : ChosenRows(rows)) specs.push_back(SpecOf(*row));
  specs.emplace_back("host");
  for (const std::string& spec : specs) {
    if (auto source = OpenSource(spec, machine)) {
      watched_.push_back({spec, BoundedReader(*source), Governor(Governor::Settings{})});
    }
  }
}

std::vector<view::TierRow> TopMachine::Read() {
  std::vector<view::TierRow> rows;
  for (Watched& watched : watched_) {
    const Result<Reading> reading = watched.reader.Read(kWithin);
    const TimePoint now(std::chrono::steady_clock::now().time_since_epoch());
    view::TierRow row;
    row.name = watched.name;
    row.level =
        watched.governor.Sample(reading ? std::optional(reading->pressure()) : std::nullopt, now);
    if (reading) {
      row.capacity = reading->total;
      row.held = reading->total - reading->free;
      row.pressure = reading->pressure();
    } else {
      row.note = reading.error().message;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace spillway
