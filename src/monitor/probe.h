// What a machine offers to sense pressure by: every kind of source, what it
// sees, what it says and what asking costs. Each driver call is bounded: one
// that hangs is reported and left behind.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "monitor/source/kind.h"
#include "spillway/pressure.h"
#include "spillway/units.h"

namespace spillway {

struct ProbeRow {
  std::string kind;
  std::string what;            // The kind, for people.
  std::optional<Found> found;  // Empty: the kind has nothing here.
  std::optional<Reading> reading;
  Duration cost{};      // Median of several calls; 0 without a reading.
  std::string why_not;  // Why there is nothing, or no reading.
  bool named_by_user = false;
  bool for_gpus = false;
};

struct ProbeOptions {
  Duration within = std::chrono::seconds(5);  // For each driver's first answer.
  int calls = 50;                             // To measure the cost by.
};

std::vector<ProbeRow> ProbeSources(const Machine& machine, const ProbeOptions& options);

// The rows a cache would sense GPUs by: for each device the first kind that
// reads it without taking memory for itself.
std::vector<const ProbeRow*> ChosenRows(const std::vector<ProbeRow>& rows);

// Two sources of one device, and by how much of its total they differ.
struct Agreement {
  const ProbeRow* a;
  const ProbeRow* b;
  double difference;
};
std::vector<Agreement> Compare(const std::vector<ProbeRow>& rows);

}  // namespace spillway
