// SPDX-License-Identifier: Apache-2.0
#include "cache/stats_json.h"

#include <chrono>
#include <cstddef>

#include <nlohmann/json.hpp>

#include "cache/loss_log.h"

namespace spillway {

std::string StatsJson(const Stats& from) {
  using Json = nlohmann::ordered_json;
  Json left = Json::object();
  Json left_bytes = Json::object();
  for (std::size_t i = 0; i < from.removed_by_reason.size(); ++i) {
    const std::string name(Name(static_cast<Reason>(i)));
    left[name] = from.removed_by_reason.at(i);
    left_bytes[name] = from.removed_bytes_by_reason.at(i);
  }
  Json destroyed = Json::object();
  Json destroyed_bytes = Json::object();
  for (std::size_t i = 0; i < from.destroyed_by_reason.size(); ++i) {
    const auto reason = static_cast<Reason>(i);
    if (!IsLoss(Action::kDestroy, reason)) continue;
    destroyed[std::string(Name(reason))] = from.destroyed_by_reason.at(i);
    destroyed_bytes[std::string(Name(reason))] = from.destroyed_bytes_by_reason.at(i);
  }
  Json actions = Json::object();
  for (std::size_t i = 0; i < from.removed_by_action.size(); ++i) {
    actions[std::string(Name(static_cast<Action>(i)))] = from.removed_by_action.at(i);
  }
  const auto tier_json = [](const TierStats& tier) {
    Json done = Json::object();
    Json done_bytes = Json::object();
    for (std::size_t i = 0; i < tier.removed_by_action.size(); ++i) {
      const std::string name(Name(static_cast<Action>(i)));
      done[name] = tier.removed_by_action.at(i);
      done_bytes[name] = tier.removed_bytes_by_action.at(i);
    }
    return Json{{"name", tier.name},
                {"capacity", tier.capacity},
                {"entries", tier.entries},
                {"bytes", tier.bytes},
                {"backed", tier.clean},
                {"clean", tier.clean_chunks},
                {"held", tier.held},
                {"slack", tier.slack},
                {"others", tier.others},
                {"total", tier.total},
                {"free", tier.free},
                {"reserve", tier.reserve},
                {"granted", tier.granted},
                {"pressure", tier.pressure ? Json(*tier.pressure) : Json()},
                {"level", std::string(Name(tier.level))},
                {"level_changes", tier.level_changes},
                {"no_room_below", tier.no_room_below},
                {"failed_moves", tier.failed_moves},
                {"copied_down", tier.copied_down},
                {"copied_up", tier.copied_up},
                {"left_by_action", done},
                {"left_bytes_by_action", done_bytes}};
  };
  Json all = {{"entries", from.entries},
              {"tokens", from.tokens},
              {"leases", from.leases},
              {"hits", from.hits},
              {"misses", from.misses},
              {"sets", from.sets},
              {"refused_blocked", from.refused_blocked},
              {"refused_budget", from.refused_budget},
              {"refused_other", from.refused_other},
              {"level_changes", from.level_changes},
              {"samples", from.samples},
              {"samples_failed", from.samples_failed},
              {"reservations", from.reservations},
              {"index_bytes", from.index_bytes},
              {"left_by_reason", left},
              {"left_bytes_by_reason", left_bytes},
              {"left_by_action", actions},
              {"destroyed_by_reason", destroyed},
              {"destroyed_bytes_by_reason", destroyed_bytes},
              {"device", tier_json(from.device)}};
  all["device"]["others_rose_unix_us"] = from.source.others_rose_unix_us;
  if (!from.host.name.empty()) all["host"] = tier_json(from.host);
  if (!from.disk.name.empty()) {
    all["disk"] = tier_json(from.disk);
    const FileStats& files = from.disk.files;
    all["disk"]["files"] = {{"written", files.written},
                            {"value_written", files.value_written},
                            {"read", files.read},
                            {"corrupt", files.corrupt},
                            {"io_errors", files.io_errors},
                            {"syncs", files.syncs},
                            {"sync_failures", files.sync_failures},
                            {"recovered", files.recovered},
                            {"recovery_rejected", files.recovery_rejected},
                            {"recovery_mended", files.recovery_mended},
                            {"recovery_given_up", files.recovery_given_up},
                            {"unsettled", files.deletes_pending},
                            {"settle_failures", files.delete_flush_failures},
                            {"voided", files.voided},
                            {"quarantined", files.quarantined},
                            {"direct", files.direct},
                            {"trouble", files.trouble}};
    all["loading"] = from.loading;
  }
  if (!from.ask.socket.empty() || !from.ask.trouble.empty()) {
    all["ask"] = {{"socket", from.ask.socket},
                  {"trouble", from.ask.trouble},
                  {"asks", from.ask.asks},
                  {"freed", from.ask.freed},
                  {"errors", from.ask.errors}};
  }
  const GiveBackStats& given = from.give_back;
  all["give_back"] = {{"count", given.count},
                      {"bytes", given.bytes},
                      {"seconds", std::chrono::duration<double>(given.total).count()},
                      {"last_s", std::chrono::duration<double>(given.last).count()},
                      {"within", given.within}};
  all["prefill_s"] = from.score.prefill_s;
  if (!from.trace.file.empty()) {
    all["trace"] = {
        {"file", from.trace.file}, {"requests", from.trace.requests}, {"lost", from.trace.lost}};
  }
  if (from.score.in_use) {
    all["score"] = {{"leads", from.score.active},          {"returns", from.score.returns},
                    {"remembered", from.score.remembered}, {"fallbacks", from.score.fallbacks},
                    {"ghost_hits", from.score.ghost_hits}, {"sent_below", from.score.sent_below}};
  }
  const TransferStats& transfers = from.moves;
  if (!from.host.name.empty() || !from.disk.name.empty()) {
    all["moves"] = {{"bytes_down", transfers.bytes_down},
                    {"bytes_up", transfers.bytes_up},
                    {"fetches", transfers.fetches},
                    {"fetches_failed", transfers.fetches_failed},
                    {"promoted", transfers.promoted},
                    {"prefetched", transfers.prefetched},
                    {"ahead_bytes", transfers.ahead_bytes},
                    {"ahead_useful_bytes", transfers.ahead_useful_bytes},
                    {"ahead_late_bytes", transfers.ahead_late_bytes},
                    {"ahead_wasted_bytes", transfers.ahead_wasted_bytes},
                    {"cancelled", transfers.cancelled},
                    {"corrupt", transfers.corrupt},
                    {"scrubbed", transfers.scrubbed},
                    {"under_way", transfers.in_flight},
                    {"passing_bytes", transfers.staging_bytes}};
  }
  return all.dump();
}

}  // namespace spillway
