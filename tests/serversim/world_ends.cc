// SPDX-License-Identifier: Apache-2.0
// Ends: the daemon is stopped, killed, loses power; and the calm at the end of
// everything.
#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "serversim/say.h"

namespace spillway::serversim {

// Runs all that is ready, and moves the clock where nothing is, until `done` or for so
// long of its time.
bool World::RunUntil(const std::function<bool()>& done, Duration within) {
  const TimePoint until = now() + within;
  std::uint64_t most = 2'000'000;
  while (!done() && !verdict_.failed()) {
    if (now() > until || most-- == 0) return false;
    BeginEvent();
    if (!IsStill()) {
      RunSomething();
    } else {
      clock_->Advance(std::chrono::milliseconds(1));
      if (now() >= next_tick_) {
        Tick();
        core_->Tick();
        if (loading_) DiskBackground();
        if (plan_.sampled || calm_) DoSample();
      }
    }
    AfterEvent();
  }
  return !verdict_.failed();
}

// The server closes all connections, and what they had submitted ends.
void World::StopServing() {
  while (!net_.connections().empty()) net_.connections().back()->Drop();
  for (const auto& client : clients_) {
    if (std::optional<OpenCommand> open = OpenOf(*client)) {
      open->talker = nullptr;
      orphans_.push_back(std::move(*open));
    }
  }
  for (const auto& client : clients_) Acknowledge(*client);
  clients_.clear();
  settling_.clear();
}

void World::EndInFlight() {
  if (core_ == nullptr) return;
  for (int i = 0; i < 4; ++i) {
    if (!pool_.Drain(!dead_)) {
      dead_ = false;
      return Fail(sim::kLiveness, "tasks and moves without end");
    }
    net_.DropAll();
    if (i == 3) break;
    if (!dead_) clock_->Advance(std::chrono::seconds(11));
    const TimePoint at = dead_ ? now() + std::chrono::hours(1000) : now();
    RunOn(core_->strand(), [&] { engine().Tick(at); });
  }
  pool_.DropPasses();
  static_cast<void>(pool_.Drain(!dead_));
  if (state_ != nullptr && state_->in_flight != 0) {
    dead_ = false;
    Fail(sim::kLiveness, fmt::format("{} submits never end", state_->in_flight.load()));
  }
}

// What the daemon does between its last client and its end, on our clock.
Flushed World::Flush() {
  FlushOptions options;
  options.within = std::chrono::seconds(60);
  options.now = [this] { return now(); };
  options.wait = [this](Duration pause) {
    clock_->Advance(pause);
    if (now() >= next_sample_) {
      next_sample_ = now() + std::chrono::milliseconds(50);
      core_->Tick();
      DoSample();
    }
    static_cast<void>(pool_.Drain(true));
  };
  if (rng_.Percent(30)) {  // Just now it is not known how full the disk is.
    PushPass(TierId::kDisk, Core::SampleValue{});
    static_cast<void>(pool_.Drain(true));
  }
  const Flushed flushed = FlushToDisk(cache_.get(), options);
  Say("flushed {} entries, {} left ({} without room, {} failed, busy: {})", flushed.entries,
      flushed.entries_left, flushed.no_room.entries, flushed.failed.entries, flushed.why_busy);
  return flushed;
}

// SIGTERM: what only memory has is written, if there is a disk.
void World::Restart() {
  Say("stop");
  EndFaults();
  const bool was_loading = loading_;
  Say("clients are closed");
  stopping_ = true;
  const auto connections = net_.connections();
  for (const auto& connection : connections) connection->Close();
  const auto finished = [this] { return net_.connections().empty(); };
  if (!RunUntil(finished, server::WaitBound::kMost + std::chrono::seconds(1)) &&
      !verdict_.failed()) {
    Fail(sim::kLiveness, "a command is not finished at the stop");
  }
  stopping_ = false;
  if (verdict_.failed()) return;
  StopServing();
  EndInFlight();
  if (verdict_.failed()) return;
  for (const OpenCommand& open : std::exchange(orphans_, {})) model_.GiveUp(open);
  state_.reset();
  bool strict = plan_.rules.has_disk && !disk_trouble_ && !damaged_ && !was_loading;
  if (plan_.rules.has_disk) {
    const Flushed flushed = Flush();
    strict = strict && flushed.entries_left == 0;
    // With room for all and nothing wrong, all can be written.
    const bool is_roomy =
        disk_->capacity() > 2 * (disk_->held() + engine().store().held(TierId::kDevice)) + kMiB;
    const bool is_well = !damaged_ && !disk_trouble_ && !was_loading &&
                         plan_.moves.fail_percent + plan_.moves.tear_percent == 0;
    if (flushed.entries_left > 0 && is_well && is_roomy && flushed.why_busy.empty()) {
      return Fail(sim::kAfterCrash,
                  fmt::format("the flush at stop left {} entries, and there was room for them",
                              flushed.entries_left));
    }
  }
  pool_.is_prompt = true;
  dead_ = true;  // Nobody is told of what leaves now.
  static_cast<void>(Cache::Close(std::move(cache_)));
  core_.reset();
  pool_.is_prompt = false;
  dead_ = false;
  if (files_->open_files() != 0) return Fail(sim::kOneOwner, "a closed cache keeps files open");
  Reopen(strict, false, !disk_trouble_ && !damaged_);
}

// The process dies, or the machine loses power: nothing is closed, nothing more
// reaches a file.
void World::Crash() {
  const bool power = rng_.Percent(15);
  Say("{}", power ? "the power fails" : "killed");
  EndFaults();
  const bool trusted = !power && !disk_trouble_ && !damaged_;
  if (power) {
    memory_files_->Crash(rng_.Next());
    damaged_ = true;  // What was not synced may be torn.
  }
  files_->SetScript([](testing::FileCall, std::uint64_t, int) { return EIO; });
  for (const auto& client : clients_) Acknowledge(*client);
  dead_ = true;
  StopServing();
  EndInFlight();
  state_.reset();
  std::weak_ptr<Core> last = core_;
  pool_.is_prompt = true;
  cache_.reset();
  core_.reset();
  pool_.is_prompt = false;
  dead_ = false;
  if (!last.expired()) return Fail(sim::kLiveness, "a cache without leases does not end");
  files_->Heal();
  Reopen(false, true, trusted);
}

// Damage to the journal while nobody is there. Of one flipped bit nothing is lost; of a
// range that is damaged in the mirror, too, values may be, and nothing older comes back.
// True: nothing may be lost.
bool World::JournalRot() {
  if (!plan_.rules.has_disk || !rng_.Percent(plan_.rot_percent)) return true;
  std::vector<std::string> files;
  for (const std::string& name : memory_files_->Names()) {
    const bool is =
        name.starts_with("/disk/store/journal-") || name.starts_with("/disk/store/mirror-");
    if (is && !memory_files_->Content(name).empty()) files.push_back(name);
  }
  if (files.empty()) return true;
  const std::string& one = files[rng_.Below(files.size())];
  const Bytes size = memory_files_->Content(one).size();
  if (rng_.Percent(60)) {
    const Bytes at = rng_.Below(size);
    Say("a bit flips in {} at {}", one, at);
    memory_files_->FlipBit(one, at, static_cast<int>(rng_.Below(8)));
    return true;
  }
  // Not of its header, which says that it is ours.
  constexpr Bytes kHeader = 64;
  if (size <= kHeader) return true;
  const Bytes from = rng_.Between(kHeader, size - 1);
  const Bytes bytes = rng_.LogBetween(1, 400);
  Say("{} bytes of the journal are lost at {}", bytes, from);
  for (const std::string& file : files) {
    std::vector<std::byte> content = memory_files_->Content(file);
    for (Bytes at = from; at < std::min<Bytes>(from + bytes, content.size()); ++at) {
      content[at] ^= std::byte{0x5a};
    }
    memory_files_->SetContent(file, content);
  }
  return false;
}

void World::Reopen(bool strict, bool crashed, bool trusted) {
  const bool whole = JournalRot();
  strict = strict && whole;
  // What was not synced when it was killed may be lost, and with it what it ended
  // (docs/design/disk-format.md, Limits).
  trusted = trusted && (whole || !crashed);
  model_.Restart(strict, crashed, trusted, std::exchange(orphans_, {}));
  loading_ = false;
  left_.clear();
  Open();
  if (verdict_.failed()) return;
  if (!loading_) {
    const std::string wrong = model_.Loaded();
    if (!wrong.empty()) Fail(sim::kAfterCrash, wrong);
    return;
  }
  loads_at_ = now() + plan_.load_lag;
  if (plan_.load_lag > Duration::zero() || !rng_.Percent(plan_.load_percent)) return;
  DiskBackground();
  static_cast<void>(pool_.Drain(true));
  Tick();
  if (!loading_ && rng_.Percent(plan_.verify_percent)) VerifyAll();
}

// --- the end ---

// Faults stop, pressure falls, clients read on: all get their answers.
void World::Calm() {
  EndFaults();
  calm_ = true;
  pool_.faults = {};
  for (const auto& client : clients_) client->reads_slowly = false;
  const auto quiet = [this] {
    return !loading_ && orphans_.empty() && std::ranges::all_of(clients_, [](const auto& client) {
      return client->unanswered == 0 || client->wire->client_gone;
    });
  };
  if (!RunUntil(quiet, std::chrono::seconds(200)) && !verdict_.failed()) {
    for (const auto& client : clients_) {
      if (client->unanswered == 0) continue;
      return Fail(
          sim::kLiveness,
          fmt::format("client {} waits for {} replies; next '{}'", client->id, client->unanswered,
                      client->sent.empty() ? "" : Shown(client->sent.front())));
    }
    return Fail(sim::kLiveness, "there is no end to what is under way");
  }
  // Long enough for any level to fall.
  const TimePoint until = now() + plan_.options.dwell + std::chrono::seconds(2);
  static_cast<void>(RunUntil([&] { return now() >= until; }, std::chrono::hours(1)));
}

void World::CheckEnd() {
  VerifyAll();
  if (verdict_.failed()) return;
  BeginEvent();
  Connect();
  Client* const client = clients_.back().get();
  for (int db = 0; db < plan_.databases && !verdict_.failed(); ++db) {
    Ask(*client, {"SELECT", fmt::to_string(db)});
    for (const Words& words : {Words{"DBSIZE"}, Words{"KEYS", "*"}}) {
      if (!verdict_.failed() && !options_.without.contains(Lower(words[0]))) Ask(*client, words);
    }
  }
  if (!verdict_.failed() && !options_.without.contains("info")) Ask(*client, {"INFO", "keyspace"});
  if (!verdict_.failed()) Ask(*client, {"SELECT", "0"});
  if (!verdict_.failed()) Ask(*client, {"SET", "last", "1:"});
  if (!verdict_.failed() && !options_.without.contains("flushdb")) Ask(*client, {"FLUSHDB"});
  for (int db = 0; db < plan_.databases && !verdict_.failed(); ++db) {
    Ask(*client, {"SELECT", fmt::to_string(db)});
    if (!verdict_.failed()) Ask(*client, {"KEYS", "*"});
  }
  if (!verdict_.failed()) Ask(*client, {"FLUSHALL"});
  if (!verdict_.failed()) Ask(*client, {"KEYS", "*"});
  if (verdict_.failed()) return;
  static_cast<void>(
      RunUntil([this] { return IsStill() && net_.connections().size() == clients_.size(); },
               std::chrono::seconds(30)));
  if (engine().store().entries() != 0) {
    Fail(sim::kValues,
         fmt::format("{} entries are there behind FLUSHALL", engine().store().entries()));
  }
}

void World::CloseDown() {
  StopServing();
  EndInFlight();
  if (verdict_.failed()) return;
  if (engine().store().reservations() != 0 || engine().store().zombies() != 0) {
    return Fail(sim::kAccounting,
                fmt::format("nobody is connected, and there are {} reservations, {} leased "
                            "generations",
                            engine().store().reservations(), engine().store().zombies()));
  }
  state_.reset();
  dead_ = true;
  pool_.is_prompt = true;
  std::weak_ptr<Core> last = core_;
  static_cast<void>(Cache::Close(std::move(cache_)));
  core_.reset();
  dead_ = false;
  if (!last.expired()) Fail(sim::kLiveness, "a closed cache without leases does not end");
  if (files_->open_files() != 0) Fail(sim::kOneOwner, "a closed cache keeps files open");
}

}  // namespace spillway::serversim
