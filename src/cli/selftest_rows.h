// SPDX-License-Identifier: Apache-2.0
// The results of `spillway selftest`, one row per check.
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

// The result of one check.
struct CheckRow {
  std::string check;
  CheckState state = CheckState::kOk;
  std::string what;  // What was observed, and what it means.
};

// All rows of one device.
struct DeviceReport {
  std::string device;  // "cuda:0", "cpu", or "hip" if there is no such device.
  std::string uuid = {};
  std::string model = {};
  std::string driver = {};  // The driver's version.
  // Whether the driver passes on memory with another process's data in it.
  std::optional<bool> stale = {};
  std::vector<CheckRow> rows = {};

  void Add(std::string check, CheckState state, std::string what) {
    rows.push_back({std::move(check), state, std::move(what)});
  }
  bool failed() const;
};

// Prints one line per row, then a summary.
void PrintTable(const std::vector<DeviceReport>& reports);
void PrintJson(const std::vector<DeviceReport>& reports);

}  // namespace spillway
