// The Poller reads every pressure source of the process, one after another, on
// one thread, each at its own pace, and hands the readings on. All sources of a
// driver share its locks: two threads would only wait for one another.
//
// A driver call may never return. A watchdog notices a call that takes longer
// than its deadline, tells the client that there is no reading, and puts
// another thread in the stuck one's place. The stuck call is left alone: when
// it returns after all, its thread hands the source back and ends. So there is
// at most one stuck thread for each source, and no other source waits for it.
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
  // Who wants to know. Called from the poller's threads, by one at a time.
  class Client {
   public:
    enum class Next : std::uint8_t {
      kWait,   // Look again when it is time.
      kAgain,  // Something has left: look again at once.
      kMore    // There is more to do: call Continue, after those that are due.
    };
    virtual ~Client() = default;
    virtual Next OnReading(const Result<Reading>& reading) = 0;
    virtual Next Continue() = 0;
  };

  struct Settings {
    Pace::Settings pace;
    // A call that takes longer has failed; it is noticed within twice that.
    Duration deadline = std::chrono::milliseconds(100);
  };

  // What is known of a source besides its readings.
  struct Account {
    std::uint64_t reads = 0;
    std::uint64_t failures = 0;
    std::uint64_t hangs = 0;
    bool hung = false;       // A call is out and late.
    Duration cost{};         // Of the last call that returned.
    Duration wait{};         // Before the next.
    std::string last_error;  // Empty: the last reading was good.
  };

  // Watching ends with it: after the destructor the client is not called any
  // more. It waits for a client's call to return, for a source's no longer than
  // a second.
  class Watch {
   public:
    virtual ~Watch() = default;
    virtual Account account() const = 0;
  };

  Poller();
  ~Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  // The process's one. Threads exist only while something is watched.
  static Poller& Shared();

  // Begins at once. `client` is borrowed and must outlive the watch.
  std::unique_ptr<Watch> Add(std::shared_ptr<PressureSource> source, const Settings& settings,
                             Client* client);

 private:
  class State;
  class WatchImpl;
  const std::shared_ptr<State> state_;
};

}  // namespace spillway
