// SPDX-License-Identifier: Apache-2.0
// A World is one seed come to life: the daemon's own connections, command table and
// state over the real cache, on a simulated network, strand, executor, transfer queue, memory,
// disk and clock; clients who use it, and things that go wrong. One thread, no time but
// its own, no chance but the seed's. Whatever can run next stands side by side, and the
// seed picks.
//
// Every reply is held against a model of Redis (model.h). Connections get one reply to
// each request, in order, in bounded time; at the end nobody waits.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cache/core.h"
#include "cache/flush.h"
#include "device/testing/fake_device.h"
#include "server/connection.h"
#include "server/delete_flusher.h"
#include "server/state.h"
#include "serversim/model.h"
#include "serversim/net.h"
#include "serversim/plan.h"
#include "serversim/pool.h"
#include "serversim/requests.h"
#include "sim/curve.h"
#include "sim/rng.h"
#include "sim/verdict.h"
#include "spillway/testing.h"
#include "tier/disk/disk_store.h"
#include "tier/disk/testing/faulty_files.h"
#include "tier/disk/testing/memory_files.h"
#include "tiersim/watched.h"

namespace spillway::serversim {

class World {
 public:
  struct Options {
    std::uint64_t seed = 0;
    std::uint64_t events = 0;
    bool verbose = false;
    std::set<std::string> without;
    std::function<void(const sim::Verdict&)> told;
  };

  explicit World(const Options& options);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  sim::Outcome Run();
  const sim::Verdict& verdict() const { return verdict_; }

 private:
  // A client and its connection.
  struct Client {
    std::uint64_t id = 0;  // Of its session.
    const server::Session* session = nullptr;
    std::shared_ptr<Wire> wire;
    Talker talker;
    std::deque<Words> sent;      // Requests that have not taken effect.
    std::size_t unanswered = 0;  // Requests whose replies it has not read.
    std::string expected;        // Replies that it has not read.
    std::uint64_t read = 0;      // Bytes, in all.
    std::uint64_t told = 0;      // Bytes of replies whose commands have taken effect.
    struct Due {
      std::uint64_t end = 0;  // In its stream of replies.
      std::uint64_t command = 0;
      bool ends_reply = true;
    };
    std::deque<Due> due;           // Replies not handed to its socket, or not read.
    std::size_t acknowledged = 0;  // Of those: so many have been handed over.
    std::uint64_t number = 0;      // Of the command that runs or waits; 0: none yet.
    bool waited = false;           // It waited when this event began.
    std::optional<TimePoint> waits_since;
    Duration waited_in_vain{};              // By commands of the EXEC that runs.
    std::optional<TimePoint> upload_since;  // WatchUpload's.
    Bytes upload_filled = 0;
    std::optional<TimePoint> refused_at;  // Its value that arrives apart: no tier took it.
    bool reads_slowly = false;
    int looks_since_gone = 0;  // Of the server, at who is still there.
    bool quits = false;
  };
  struct Waiting {  // A client that waits for the disk to know.
    std::function<void(bool durable)> done;
    TimePoint since;
  };
  class SimSettler final : public server::DeleteFlusher {
   public:
    explicit SimSettler(World* world) : world_(*world) {}
    void Await(std::function<void(bool durable)> done) override {
      world_.settling_.push_back({std::move(done), world_.now()});
    }

   private:
    World& world_;
  };

  // world.cc
  void Open();
  std::unique_ptr<tiersim::WatchedTier> OpenMemory(TierId tier, Core::Parts* parts);
  DiskOptions OptionsOfDisk() const;
  void Step();
  void Act(Do what);
  void RunSomething();
  std::size_t ReadyCount() const;
  void BeginEvent();
  void AfterEvent();
  bool IsStill() const;
  void Mark(std::uint64_t what) { fingerprint_ = sim::Mix(fingerprint_ ^ what); }
  void Fail(int invariant, const std::string& what) {
    if (!dead_) verdict_.Fail(invariant, what);
  }
  template <typename... Args>
  void Say(const char* form, const Args&... args);
  TimePoint now() const { return clock_->Now(); }
  std::int64_t UnixMs() const;
  // Of what the cache has under that key; empty: nothing.
  std::optional<TimePoint> DeadlineOf(const KeyName& name);
  Engine& engine() { return core_->engine(); }

  // world_clients.cc
  void Connect();
  void Disconnect(Client& client);
  void Send(Client& client, const Words& words);
  void SendSome();
  std::size_t Readable(const Client& client) const;
  void Read(Client& client);
  void OnCommand(const server::Session& session, std::span<const std::string_view> args,
                 bool failed);
  std::string TakeReply(Client& client, const server::Session& session);
  void Acknowledge(Client& client);
  void DropGone();
  void CheckStalledRoom(const Client& refused);
  void WatchUpload(Client* client) const;
  void WatchRefusal(Client* client) const;
  static bool IsWaiting(const server::Session& session);
  std::optional<OpenCommand> OpenOf(Client& client);
  std::vector<OpenCommand> OpenCommands(const Talker* but);
  Client* ClientOf(const server::Session& session);
  void Tick();
  std::string Ask(Client& client, const Words& words);
  void VerifyAll();

  // world_faults.cc: pressure, time, what goes wrong, and what the cache announces.
  void OnCacheEvent(const Event& event);
  void AfterStrand();
  void CheckReplaced();
  void PushPass(TierId tier, const std::optional<Core::SampleValue>& sample);
  void DoSample();
  void PassTime();
  void JumpTime();
  void DiskBackground();
  void FileFaults();
  void BitRot();
  void EndFaults();
  void SettleOne();
  bool CanSettle() const { return now() >= next_settle_; }
  void SeeLoaded();

  // world_ends.cc
  void StopServing();
  void EndInFlight();
  Flushed Flush();
  bool JournalRot();
  void Restart();
  void Crash();
  void Reopen(bool strict, bool crashed, bool trusted);
  void Calm();
  bool RunUntil(const std::function<bool()>& done, Duration within);
  void CheckEnd();
  void CloseDown();

  const Options options_;
  const Plan plan_;
  sim::Rng rng_;
  sim::Verdict verdict_;
  std::shared_ptr<testing::ManualClock> clock_;
  std::vector<sim::Curve> curves_;
  std::shared_ptr<testing::MemoryFiles> memory_files_;
  std::shared_ptr<testing::FaultyFiles> files_;
  Pool pool_;
  Net net_;
  Requests requests_;
  Model model_;

  // One life of the daemon.
  std::shared_ptr<Core> core_;
  std::unique_ptr<Cache> cache_;
  std::shared_ptr<server::State::Events> events_;
  std::unique_ptr<server::State> state_;
  SimSettler settler_{this};
  std::array<tiersim::WatchedTier*, 2> memory_{};
  tiersim::WatchedDisk* disk_ = nullptr;
  DiskStore* real_disk_ = nullptr;
  bool loading_ = false;
  TimePoint loads_at_;  // Before, the disk does not begin to be read in.
  TimePoint next_tick_;
  TimePoint next_settle_;
  int ticks_ = 0;
  bool disk_trouble_ = false;  // What the disk was told may not be so.

  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<OpenCommand> orphans_;  // Commands of clients that have gone.
  std::vector<Waiting> settling_;
  std::uint64_t commands_ = 0;
  std::uint64_t dropped_ = 0;  // As the daemon has counted.
  struct Gone {
    KeyName name;
    std::string cache_key;
    Action action;
    Reason reason;
  };
  std::vector<Gone> left_;          // Announced in the event that runs.
  std::set<std::string> replaced_;  // Said to have made way for their successors.

  bool stopping_ = false;  // The server closes its clients' connections.
  bool dead_ = false;      // What happens now is not looked at.
  bool calm_ = false;
  bool damaged_ = false;
  TimePoint next_sample_;
  std::uint64_t faults_until_ = 0;  // Event numbers.
  std::uint64_t slow_until_ = 0;
  std::uint64_t unknown_until_ = 0;
  std::uint64_t fingerprint_ = 0;
  std::size_t most_live_ = 0;
};

}  // namespace spillway::serversim
