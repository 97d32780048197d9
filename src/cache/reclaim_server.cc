// SPDX-License-Identifier: Apache-2.0
#include "cache/reclaim_server.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/run_dir.h"
#include "cache/core.h"
#include "monitor/bounded_read.h"

namespace spillway {

namespace {
// A reading takes microseconds; a driver that hangs must not delay the answer.
constexpr Duration kLookWithin = std::chrono::milliseconds(50);
}  // namespace

std::string DeviceId(const Device& device) {
  if (!device.id().empty()) return std::string(device.id());
  constexpr std::string_view kCard = "cpu:";
  std::string_view name = device.name();
  if (name.starts_with(kCard)) name.remove_prefix(kCard.size());
  return std::string(name);
}

std::unique_ptr<ReclaimServer> ReclaimServer::Open(const Options& options,
                                                   std::shared_ptr<Device> device, Core* core) {
  if (!options.ask || device == nullptr || !device->shared()) return nullptr;
  std::unique_ptr<ReclaimServer> reclaim_server(
      new ReclaimServer(options, std::move(device), core));
  if (Status listens = reclaim_server->Listen(options); !listens) {
    reclaim_server->trouble_ = listens.error().message;
    LogWarning("neighbours can't ask this cache for memory: {}", reclaim_server->trouble_);
  }
  return reclaim_server;
}

ReclaimServer::ReclaimServer(const Options& options, std::shared_ptr<Device> device, Core* core)
    : core_(core),
      device_(std::move(device)),
      can_look_(options.pressure == nullptr && options.pressure_source == "auto") {}

ReclaimServer::~ReclaimServer() = default;

Status ReclaimServer::Listen(const Options& options) {
  AskServer::Settings settings;
  if (!options.ask_group.empty()) {
    Result<gid_t> group = FindGroup(options.ask_group);
    if (!group) return group.error();
    settings.group = *group;
  }
  Result<std::string> run_dir = RunDir();
  if (!run_dir) return run_dir.error();
  settings.run_dir = std::move(*run_dir);
  settings.device = DeviceId(*device_);
  Result<std::unique_ptr<AskServer>> server = AskServer::Open(std::move(settings), this);
  if (!server) return server.error();
  server_ = std::move(*server);
  return {};
}

void ReclaimServer::CountInto(AskStats* stats) const {
  stats->trouble = trouble_;
  if (server_ == nullptr) return;
  const AskServer::Account account = server_->account();
  stats->socket = server_->path();
  stats->asks = account.asks;
  stats->freed = account.freed;
  stats->errors = account.errors;
}

AskHandler::Holdings ReclaimServer::Held() {
  Holdings holdings;
  RunOn(core_->strand(), [&] {
    const Store& store = core_->engine().store();
    holdings.held = store.held(TierId::kDevice);
    holdings.at_once = core_->engine().single() ? 0 : store.clean(TierId::kDevice);
  });
  return holdings;
}

AskHandler::Given ReclaimServer::Give(Bytes bytes) {
  Given given;
  const Reclaimed reclaimed = core_->ReclaimSome(bytes, &given.more);
  given.freed = reclaimed.freed;
  given.why_not_more = reclaimed.why_not_more;
  return given;
}

void ReclaimServer::Gave(Bytes bytes, Duration took) { core_->GaveBack(bytes, took); }

// The last sample may be a period old, and memory taken since would count as taken by
// the process that asks now. Taking the least we held meanwhile makes the part of
// others too large rather than too small; the next sample corrects that.
std::optional<Bytes> ReclaimServer::OthersNow() {
  if (!can_look_) return std::nullopt;
  const Bytes before = Held().held;
  const std::shared_ptr<Device> device = device_;
  const auto reading = RunBounded(kLookWithin, [device] { return device->ReadMemory(); });
  if (!reading || !*reading) return std::nullopt;
  const Bytes held = std::min(before, Held().held);
  const Bytes total = (*reading)->total;
  const Bytes taken = total - std::min(total, (*reading)->free);
  return taken - std::min(taken, held);
}

void ReclaimServer::Reserve(std::uint64_t who, Bytes bytes) {
  const std::optional<Bytes> others = bytes > 0 ? OthersNow() : std::nullopt;
  RunOn(core_->strand(),
        [&] { core_->engine().ReserveForPeer(TierId::kDevice, who, bytes, others); });
}

}  // namespace spillway
