// SPDX-License-Identifier: Apache-2.0
#include "cli/selftest_rows.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "spillway/version.h"

namespace spillway {

std::string_view Name(CheckState state) {
  switch (state) {
    case CheckState::kOk:
      return "ok";
    case CheckState::kFailed:
      return "failed";
    case CheckState::kSkipped:
      return "skipped";
  }
  return "?";
}

bool DeviceReport::failed() const {
  return std::ranges::any_of(rows,
                             [](const CheckRow& row) { return row.state == CheckState::kFailed; });
}

namespace {

std::size_t Count(const std::vector<DeviceReport>& reports, CheckState state) {
  std::size_t count = 0;
  for (const DeviceReport& report : reports) {
    count += static_cast<std::size_t>(std::ranges::count_if(
        report.rows, [state](const CheckRow& row) { return row.state == state; }));
  }
  return count;
}

}  // namespace

void PrintTable(const std::vector<DeviceReport>& reports) {
  for (const DeviceReport& report : reports) {
    for (const CheckRow& row : report.rows) {
      fmt::print("{:<8} {:<18} {:<8} {}\n", report.device, row.check, Name(row.state), row.what);
    }
  }
  fmt::print("{} ok, {} failed, {} skipped\n", Count(reports, CheckState::kOk),
             Count(reports, CheckState::kFailed), Count(reports, CheckState::kSkipped));
}

void PrintJson(const std::vector<DeviceReport>& reports) {
  nlohmann::json json;
  json["spillway"] = SPILLWAY_VERSION;
  json["failed"] = Count(reports, CheckState::kFailed);
  json["devices"] = nlohmann::json::array();
  for (const DeviceReport& report : reports) {
    nlohmann::json device = {{"device", report.device}};
    if (!report.uuid.empty()) device["uuid"] = report.uuid;
    if (!report.model.empty()) device["model"] = report.model;
    if (!report.driver.empty()) device["driver"] = report.driver;
    device["stale"] = report.stale ? nlohmann::json(*report.stale) : nlohmann::json(nullptr);
    device["checks"] = nlohmann::json::array();
    for (const CheckRow& row : report.rows) {
      device["checks"].push_back(
          {{"check", row.check}, {"state", Name(row.state)}, {"what", row.what}});
    }
    json["devices"].push_back(std::move(device));
  }
  fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace spillway
