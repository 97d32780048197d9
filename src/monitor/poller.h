// SPDX-License-Identifier: Apache-2.0
// The Poller reads all pressure sources of the process, one after another, on one
// thread, each at its own pace, and passes the readings to their clients. All sources
// of one driver share its locks, so two threads would only wait for each other.
//
// A driver call may never return. A watchdog detects calls that exceed their
// deadline, tells the client that there is no reading, and starts a new thread
// in place of the stuck one. The stuck call is left alone; if it returns after
// all, its thread releases the source and ends. So there is at most one stuck
// thread per source, and no other source waits for it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "monitor/pace.h"
#include "spillway/pressure.h"
#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

class Poller {
 public:
  // Receives the readings. Called from the poller's threads, by one at a time.
  class Client {
   public:
    enum class Next : std::uint8_t {
      kWait,   // Read again when it is time.
      kAgain,  // Memory was freed: read again at once.
      kMore    // More to do: call Continue, after the sources that are due.
    };
    virtual ~Client() = default;
    virtual Next OnReading(const Result<Reading>& reading) = 0;
    virtual Next Continue() = 0;
  };

  struct Settings {
    Pace::Settings pace;
    // A call that takes longer has failed; that is detected within twice this time.
    Duration deadline = std::chrono::milliseconds(100);
  };

  // The state and counters of a source, apart from its readings.
  struct Account {
    std::uint64_t reads = 0;
    std::uint64_t failures = 0;
    std::uint64_t hangs = 0;
    bool hung = false;       // A call is running and late.
    Duration cost{};         // Of the last call that returned.
    Duration wait{};         // Until the next reading.
    std::string last_error;  // Empty: the last reading was good.
  };

  // A source being watched, until this object is destroyed: after the
  // destructor the client is not called any more. The destructor waits for a
  // running call of the client, but at most a second for one of the source.
  class Watch {
   public:
    virtual ~Watch() = default;
    virtual Account account() const = 0;
  };

  Poller();
  ~Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  // The instance of this process. Threads exist only while something is watched.
  static Poller& Shared();

  // Starts watching at once. `client` is borrowed and must outlive the watch.
  std::unique_ptr<Watch> Add(std::shared_ptr<PressureSource> source, const Settings& settings,
                             Client* client);

 private:
  class State;
  class WatchImpl;
  const std::shared_ptr<State> state_;
};

}  // namespace spillway
