// What `spillway selftest` found, a row for each check.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spillway/units.h"

namespace spillway {

enum class CheckState : std::uint8_t { kOk, kFailed, kSkipped };
std::string_view Name(CheckState state);  // "ok", "failed", "skipped"

struct CheckRow {
  std::string check;
  CheckState state = CheckState::kOk;
  std::string what;  // What was seen, and what it means.
};

// All rows of one device.
struct DeviceReport {
  std::string device;  // "cuda:0", "cpu", or "hip" where there is none.
  std::string uuid = {};
  std::string model = {};
  std::string driver = {};         // Its version.
  std::optional<bool> stale = {};  // Whether it hands out what others left.
  std::vector<CheckRow> rows = {};

  void Add(std::string check, CheckState state, std::string what) {
    rows.push_back({std::move(check), state, std::move(what)});
  }
  bool failed() const;
};

// One line each, then a line that says how it ended.
void PrintTable(const std::vector<DeviceReport>& reports);
void PrintJson(const std::vector<DeviceReport>& reports);

}  // namespace spillway
