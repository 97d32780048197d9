// SPDX-License-Identifier: Apache-2.0
#include "monitor/probe.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include "base/parse.h"
#include "monitor/bounded_read.h"

namespace spillway {

namespace {

using Clock = std::chrono::steady_clock;

struct Measured {
  Result<Reading> reading;
  Duration cost{};
};

// Reads a source several times, for at most 200 ms; the cost is the median.
Measured ReadSome(PressureSource& source, int calls) {
  Measured measured{source.Read()};
  if (!measured.reading) return measured;
  std::vector<Duration> costs;
  const Clock::time_point enough = Clock::now() + std::chrono::milliseconds(200);
  for (int i = 0; i < calls && (i == 0 || Clock::now() < enough); ++i) {
    const Clock::time_point before = Clock::now();
    measured.reading = source.Read();
    costs.push_back(Clock::now() - before);
    if (!measured.reading) return measured;
  }
  std::nth_element(costs.begin(), costs.begin() + static_cast<std::ptrdiff_t>(costs.size() / 2),
                   costs.end());
  measured.cost = costs[costs.size() / 2];
  return measured;
}

std::string Late(const ProbeOptions& options) {
  return fmt::format("no answer within {}: the call was abandoned", FormatDuration(options.within));
}

// Opens and reads one device within the time limit, into `row`.
void Read(const SourceKind& kind, const Machine& machine, const ProbeOptions& options,
          ProbeRow* row) {
  const std::optional<Measured> measured = RunBounded(
      options.within,
      [&kind, machine, device = row->found->uuid.empty() ? row->found->device : row->found->uuid,
       calls = options.calls]() -> Measured {
        auto source = kind.Open(machine, device);
        if (!source) return {source.error()};
        return ReadSome(**source, calls);
      });
  if (!measured) {
    row->why_not = Late(options);
  } else if (!measured->reading) {
    row->why_not = measured->reading.error().message;
  } else {
    row->reading = *measured->reading;
    row->cost = measured->cost;
  }
}

}  // namespace

std::vector<ProbeRow> ProbeSources(const Machine& machine, const ProbeOptions& options) {
  std::vector<ProbeRow> rows;
  for (const SourceKind* kind : SourceKinds()) {
    ProbeRow row;
    row.kind = kind->name();
    row.what = kind->what();
    row.for_gpus = kind->for_gpus();
    const std::optional<Sighting> sighting =
        RunBounded(options.within, [kind, machine] { return kind->Look(machine); });
    if (!sighting || sighting->found.empty()) {
      row.why_not = sighting ? sighting->why_not : Late(options);
      row.named_by_user = sighting && sighting->named_by_user;
      rows.push_back(std::move(row));
      continue;
    }
    for (const Found& found : sighting->found) {
      row.found = found;
      row.reading.reset();
      row.why_not.clear();
      Read(*kind, machine, options, &row);
      rows.push_back(row);
    }
  }
  return rows;
}

std::vector<const ProbeRow*> ChosenRows(const std::vector<ProbeRow>& rows) {
  std::vector<const ProbeRow*> chosen;
  for (const ProbeRow& row : rows) {
    if (!row.for_gpus || !row.reading) continue;
    const bool taken = std::any_of(chosen.begin(), chosen.end(), [&](const ProbeRow* other) {
      return other->found->device == row.found->device;
    });
    if (!taken) chosen.push_back(&row);
  }
  return chosen;
}

std::vector<Agreement> Compare(const std::vector<ProbeRow>& rows) {
  std::vector<Agreement> agreements;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = i + 1; j < rows.size(); ++j) {
      const ProbeRow& a = rows[i];
      const ProbeRow& b = rows[j];
      if (!a.reading || !b.reading || a.kind == b.kind) continue;
      if (a.found->device.empty() || a.found->device != b.found->device) continue;
      const auto used = [](const Reading& reading) {
        return static_cast<double>(reading.total) - static_cast<double>(reading.free);
      };
      agreements.push_back(
          {&a, &b,
           std::abs(used(*a.reading) - used(*b.reading)) / static_cast<double>(a.reading->total)});
    }
  }
  return agreements;
}

}  // namespace spillway
