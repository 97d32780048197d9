// SPDX-License-Identifier: Apache-2.0
// The sources of pressure that a machine offers: each kind of source, the
// devices it finds, their readings and the cost of a reading. Each driver call
// has a time limit: one that hangs is reported and abandoned.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "monitor/source/kind.h"
#include "spillway/pressure.h"
#include "spillway/units.h"

namespace spillway {

// One device of one kind, or the reason why a kind has none.
struct ProbeRow {
  std::string kind;
  std::string what;            // Describes the kind, for people.
  std::optional<Found> found;  // Empty: the kind found nothing.
  std::optional<Reading> reading;
  Duration cost{};      // Median of several calls; 0 without a reading.
  std::string why_not;  // Why nothing was found, or why there is no reading.
  bool named_by_user = false;
  bool for_gpus = false;
};

struct ProbeOptions {
  Duration within = std::chrono::seconds(5);  // Until a driver's first answer.
  int calls = 50;                             // To measure the cost.
};

std::vector<ProbeRow> ProbeSources(const Machine& machine, const ProbeOptions& options);

// The rows by which a cache would read GPUs: for each device the first kind
// that reads it without taking memory for itself.
std::vector<const ProbeRow*> ChosenRows(const std::vector<ProbeRow>& rows);

// Two sources of one device, and by what share of its total they differ.
struct Agreement {
  const ProbeRow* a;
  const ProbeRow* b;
  double difference;
};
std::vector<Agreement> Compare(const std::vector<ProbeRow>& rows);

}  // namespace spillway
