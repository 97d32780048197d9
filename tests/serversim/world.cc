// SPDX-License-Identifier: Apache-2.0
#include "serversim/world.h"

#include <algorithm>

#include <fmt/format.h>

#include "serversim/say.h"
#include "tier/arena_tier.h"

namespace spillway::serversim {

namespace {

// Some day in 2025, and no whole second.
constexpr std::int64_t kUnixNsAtZero = 1'750'000'000'123'000'000;

std::int64_t WallNs(const void* clock) {
  const auto* const at = static_cast<const testing::ManualClock*>(clock);
  return kUnixNsAtZero + at->Now().time_since_epoch().count();
}

}  // namespace

World::World(const Options& options)
    : options_(options),
      plan_(Plan::Draw(options.seed, options.without)),
      rng_(options.seed * 2),
      verdict_(options.told),
      clock_(std::make_shared<testing::ManualClock>()),
      memory_files_(std::make_shared<testing::MemoryFiles>(256 * kMiB)),
      files_(std::make_shared<testing::FaultyFiles>(memory_files_)),
      pool_(&rng_, clock_.get(), &verdict_),
      net_(&rng_, clock_.get(), plan_.net),
      requests_(&plan_, &rng_),
      model_(plan_.rules, {.unix_ms = [this] { return UnixMs(); },
                           .is_there =
                               [this](const KeyName& name) {
                                 const auto end = DeadlineOf(name);
                                 return end && *end > now();
                               },
                           .is_dead =
                               [this](const KeyName& name) {
                                 const auto end = DeadlineOf(name);
                                 return end && *end <= now();
                               },
                           .is_loading = [this] { return loading_; },
                           .refuses_writes = [this] { return state_->not_durable.load(); },
                           .is_open = [this] { return core_ != nullptr && !dead_ && !loading_; },
                           .open_commands = [this](const Talker* but) { return OpenCommands(but); },
                           .reads_may_fail = [this] { return plan_.rules.has_disk || damaged_; },
                           .is_faulty = [this] { return damaged_ || disk_trouble_; },
                           .now = [this] { return now(); }}),
      fingerprint_(options.seed) {
  clock_->Set(TimePoint(std::chrono::seconds(1)));
  for (const TierId tier : kTierIds) {
    const TierPlan& one = plan_.tiers[IndexOf(tier)];
    curves_.emplace_back(one.shape, one.low, one.high, std::max(one.period, Duration(1)),
                         options.seed + IndexOf(tier));
  }
  pool_.faults = plan_.moves;
  pool_.after_event = [this] { AfterStrand(); };
  pool_.disk_failed = [this] { disk_trouble_ = true; };
  Open();
}

World::~World() {
  dead_ = true;
  EndFaults();
  StopServing();
  EndInFlight();
  state_.reset();
  pool_.is_prompt = true;
  cache_.reset();
  core_.reset();
}

std::int64_t World::UnixMs() const { return WallNs(clock_.get()) / 1'000'000; }

std::optional<TimePoint> World::DeadlineOf(const KeyName& name) {
  std::string buffer;
  const std::string_view key = server::CacheKey(name.first, name.second, &buffer);
  const Index& index = engine().store().index();
  const std::uint32_t slot = index.Lookup(index.HashOf(key), key);
  return slot == kNoSlot ? std::nullopt : std::optional(engine().DeadlineOf(slot));
}

std::unique_ptr<tiersim::WatchedTier> World::OpenMemory(TierId tier, Core::Parts* parts) {
  const TierPlan& one = plan_.tiers[IndexOf(tier)];
  const bool top = tier == TierId::kDevice;
  auto device = std::make_shared<testing::FakeDevice>(
      testing::FakeDeviceOptions{.total = one.total,
                                 .chunk_bytes = plan_.chunk,
                                 .shared = false,
                                 .name = std::string(Name(tier))});
  ArenaTierOptions options;
  options.name = Name(tier);
  options.capacity = one.capacity;
  auto seen = std::make_unique<sim::SimTier>(
      std::move(ArenaTier::Open(device.get(), options).value()), device.get(), &verdict_);
  (top ? parts->device : parts->host) = std::move(device);
  auto watched = std::make_unique<tiersim::WatchedTier>(std::move(seen), [](const std::byte*) {});
  memory_[IndexOf(tier)] = watched.get();
  return watched;
}

DiskOptions World::OptionsOfDisk() const {
  DiskOptions options;
  options.directory = "/disk/store";
  options.quota = plan_.tiers[2].capacity;
  options.min_free = 0;
  options.journal_slack = 64 * kKiB;
  options.files = files_;
  options.clock = clock_;
  options.background = false;
  return options;
}

// The daemon starts; what an earlier one left on disk is still to be found.
void World::Open() {
  spillway::Options options = plan_.options;
  options.clock = clock_;
  options.key_group = &server::GroupOfKey;
  events_ = std::make_shared<server::State::Events>();
  options.on_event = [this, events = events_](const Event& event) {
    events->OnEvent(event);
    OnCacheEvent(event);
  };
  Core::Parts parts;
  memory_ = {};
  disk_ = nullptr;
  real_disk_ = nullptr;
  parts.tiers.device = OpenMemory(TierId::kDevice, &parts);
  if (plan_.Has(TierId::kHost)) parts.tiers.host = OpenMemory(TierId::kHost, &parts);
  if (plan_.Has(TierId::kDisk)) {
    auto opened = DiskStore::Open(OptionsOfDisk());
    if (!opened) return Fail(sim::kAfterCrash, "the disk does not open: " + opened.error().message);
    real_disk_ = opened->get();
    auto watched = std::make_unique<tiersim::WatchedDisk>(
        std::move(*opened), &verdict_,
        tiersim::WatchedDisk::Watch{[](BlobId, const std::string&, bool) {},
                                    [](const std::string&) {}, [this] { return !loading_; }});
    disk_ = watched.get();
    parts.tiers.disk = std::move(watched);
    loading_ = true;
  }
  pool_.Serve({.device = parts.tiers.device.get(),
               .host = parts.tiers.host.get(),
               .disk = parts.tiers.disk.get()},
              memory_);
  parts.close_within = {};
  parts.load_within = {};
  parts.strand = pool_.MakeStrand();
  parts.executor = pool_.MakeExecutor();
  parts.transfer_queue = pool_.MakeTransferQueue();
  parts.unix_offset = kUnixNsAtZero;
  core_ = Core::Open(options, std::move(parts)).value();
  cache_ = Core::Wrap(core_);
  server::Config config = server::DefaultConfig();
  config.server = plan_.server;
  state_ = std::make_unique<server::State>(config, cache_.get(), events_, &WallNs, clock_.get());
  state_->random.seed(static_cast<std::uint32_t>(rng_.Next() | 1));
  state_->on_command = [this](const server::Session& session,
                              std::span<const std::string_view> args, bool failed) {
    SeeLoaded();
    OnCommand(session, args, failed);
  };
  dropped_ = 0;
  replaced_.clear();
  disk_trouble_ = false;
  next_tick_ = next_sample_ = next_settle_ = now();
}

sim::Outcome World::Run() {
  for (std::uint64_t event = 1; event <= options_.events && !verdict_.failed(); ++event) {
    verdict_.event = event;
    Step();
  }
  if (!verdict_.failed()) Calm();
  if (!verdict_.failed()) CheckEnd();
  if (!verdict_.failed()) CloseDown();
  return {verdict_.failed(), fingerprint_, verdict_.event, most_live_};
}

void World::Step() {
  PassTime();
  const std::size_t ready = ReadyCount();
  BeginEvent();
  if (ready > 0 && (ready > 60 || rng_.Percent(plan_.queue_percent))) {
    RunSomething();
  } else {
    Act(static_cast<Do>(rng_.ByWeight(plan_.weights, plan_.weights_sum)));
  }
  AfterEvent();
}

std::size_t World::ReadyCount() const {
  std::size_t ready = pool_.ready() + net_.ready();
  if (CanSettle()) ready += settling_.size();
  for (const auto& client : clients_) {
    if (Readable(*client) > 0 && !client->reads_slowly) ++ready;
  }
  return ready;
}

// One of all that is ready; but what the seed has passed over for long, as no machine does for
// ever, runs first.
void World::RunSomething() {
  constexpr Duration kPassedOver = std::chrono::milliseconds(500);
  if (net_.RunOverdue(now() - kPassedOver)) return;
  if (const auto overdue = pool_.OverdueSince(now() - 2 * kPassedOver)) {
    return pool_.RunReady(*overdue);
  }
  std::size_t at = rng_.Below(ReadyCount());
  if (at < pool_.ready()) return pool_.RunReady(at);
  at -= pool_.ready();
  if (at < net_.ready()) return net_.RunReady(at);
  at -= net_.ready();
  for (const auto& client : clients_) {
    if (Readable(*client) == 0 || client->reads_slowly) continue;
    if (at-- == 0) return Read(*client);
  }
  SettleOne();
}

// Nothing can run before the clock moves.
bool World::IsStill() const { return ReadyCount() == 0; }

void World::BeginEvent() {
  model_.Tick();
  // Only one client's commands run in an event.
  if (state_ != nullptr) dropped_ = state_->counters.dropped_writes;
  for (const auto& client : clients_) {
    client->waited = IsWaiting(*client->session);
    if (client->waited) continue;
    client->talker.start = model_.moment();
    client->talker.start_ms = UnixMs();
  }
}

void World::AfterEvent() {
  // How late an answer is where time jumps, and its loop and the pool have other things to do. An
  // EXEC may be late twice that: of what one wait is late those behind it have half.
  constexpr Duration kLate = std::chrono::seconds(4);
  constexpr Duration kWaitMax = server::WaitBound::kAlone * 11 / 10 + kLate;
  constexpr Duration kWaitsMax = server::WaitBound::kMost + 2 * kLate;
  if (verdict_.failed() || state_ == nullptr) return;
  CheckReplaced();
  DropGone();
  for (const auto& client : clients_) {
    Acknowledge(*client);
    WatchUpload(client.get());
    WatchRefusal(client.get());
    const bool for_itself = client->session->suspended.why == server::Wait::kOutput;
    if (!IsWaiting(*client->session) || for_itself) {
      client->waits_since.reset();
    } else if (!client->waits_since) {
      client->waits_since = now();
    } else if (const Duration waits = now() - *client->waits_since;
               waits > kWaitMax || waits + client->waited_in_vain > kWaitsMax) {
      return Fail(sim::kLiveness,
                  fmt::format("client {} has waited for {} s, and in vain for {} s: {}", client->id,
                              waits / std::chrono::seconds(1),
                              client->waited_in_vain / std::chrono::seconds(1),
                              client->sent.empty() ? "?" : Shown(client->sent.front())));
    }
    if (client->waits_since) continue;
    if (client->wire->to_client.size() > client->expected.size()) {
      return Fail(sim::kValues,
                  fmt::format("client {} gets bytes that answer nothing: '{}'", client->id,
                              Shown(client->wire->to_client.substr(client->expected.size()))));
    }
    // Behind its mark only what one command says, and that is not much here.
    constexpr Bytes kHeldMax = kMiB + kMiB / 4;
    if (client->session->out.held() > kHeldMax) {
      return Fail(sim::kAccounting, fmt::format("client {}: {} bytes of replies are held",
                                                client->id, client->session->out.held()));
    }
  }
  // What they submitted has ended, and nobody will go on with it.
  if (!orphans_.empty() && state_->in_flight == 0 && !net_.has_posts()) {
    for (const OpenCommand& open : std::exchange(orphans_, {})) model_.GiveUp(open);
  }
  most_live_ = std::max<std::size_t>(most_live_, engine().store().entries());
}

void World::Act(Do what) {
  Say("do {}", static_cast<int>(what));
  switch (what) {
    case Do::kRequest:
      return SendSome();
    case Do::kConnect:
      return clients_.size() < plan_.clients ? Connect() : void();
    case Do::kDisconnect:
      return clients_.empty() ? void() : Disconnect(*clients_[rng_.Below(clients_.size())]);
    case Do::kSample:
      return DoSample();
    case Do::kTend: {
      return RunOn(core_->strand(), [&] { engine().RunBackground(now()); });
    }
    case Do::kLook:
      return core_->Tick();
    case Do::kDiskBackground:
      return DiskBackground();
    case Do::kStepClock:
      return JumpTime();
    case Do::kTierRefuses:
      for (tiersim::WatchedTier* tier : memory_) {
        if (tier != nullptr && rng_.Percent(60)) tier->seen().RefuseNext(rng_.Between(1, 12));
      }
      return;
    case Do::kFileFaults:
      return FileFaults();
    case Do::kBitRot:
      return BitRot();
    case Do::kSlowDisk:
      slow_until_ = verdict_.event + rng_.LogBetween(10, 600);
      pool_.disk_delay = plan_.tick * static_cast<std::int64_t>(rng_.LogBetween(10, 1000));
      return;
    case Do::kSourceFails:
      unknown_until_ = verdict_.event + rng_.LogBetween(5, 600);
      return;
    case Do::kSlowReader:
      if (!clients_.empty()) {
        Client& client = *clients_[rng_.Below(clients_.size())];
        client.reads_slowly = !client.reads_slowly;
      }
      return;
    case Do::kRestart:
      return Restart();
    case Do::kCrash:
      return Crash();
    case Do::kCount:
      return;
  }
}

}  // namespace spillway::serversim
