// SPDX-License-Identifier: Apache-2.0
// The Net is the network and the event loops of a simulated daemon: connections
// whose bytes arrive in pieces, sockets that fill up, timers of the virtual clock.
// The seed picks which of what is ready runs next.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/connection.h"
#include "server/link.h"
#include "sim/rng.h"
#include "spillway/testing.h"

namespace spillway::serversim {

// One connection: bytes on their way, and who has hung up.
struct Wire {
  std::string to_server;   // Sent by the client, not read by the server.
  std::string to_client;   // Sent by the server, not read by the client.
  std::uint64_t sent = 0;  // By the server, in all.
  std::string log;         // What it sent since somebody looked: the last of `sent`.
  bool client_gone = false;
  bool server_gone = false;
};

class Net {
 public:
  struct Shape {
    Bytes read_max = 64 * kKiB;       // Most bytes that one read finds.
    Bytes socket_bytes = 256 * kKiB;  // What a socket holds for a client that does not read.
    bool whole = false;               // Nothing comes in pieces, and no socket fills up.
  };

  Net(sim::Rng* rng, testing::ManualClock* clock, Shape shape)
      : rng_(*rng), clock_(*clock), shape_(shape), scratch_(64 * kKiB) {}

  std::unique_ptr<server::Link> MakeLink(std::shared_ptr<Wire> wire);
  // From now on the connection takes part; it was made with a link of ours.
  void Add(std::shared_ptr<server::Connection> connection);

  // What can run now, and one of it.
  std::size_t ready() const;
  void RunReady(std::size_t at);
  // Runs the timer, or else what was posted, that has been due since before `then`. False: none.
  bool RunOverdue(TimePoint then);
  // When the next timer is due.
  std::optional<TimePoint> next_timer() const;
  bool has_posts() const { return !posts_.empty(); }

  const std::vector<std::shared_ptr<server::Connection>>& connections() const {
    return connections_;
  }
  // The process dies: nobody is told.
  void DropAll();

 private:
  class SimLink;
  enum class What : std::uint8_t { kReadable, kWritable, kTimer, kFlush };
  struct Ready {
    SimLink* link = nullptr;
    What what = What::kReadable;
  };
  std::vector<Ready> ReadyLinks() const;
  void RunPosted();

  sim::Rng& rng_;
  testing::ManualClock& clock_;
  const Shape shape_;
  std::vector<char> scratch_;
  std::vector<SimLink*> links_;  // Of the connections, in the same order.
  std::vector<std::shared_ptr<server::Connection>> connections_;
  struct Posted {
    std::function<void()> work;
    TimePoint since;
  };
  std::deque<Posted> posts_;
};

}  // namespace spillway::serversim
