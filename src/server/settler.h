// The Settler waits for the disk in everybody's place: clients whose writes the
// disk must know of before they are answered are told when it does, many at once.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "spillway/cache.h"

namespace spillway::server {

class Settler {
 public:
  explicit Settler(Cache* cache);
  ~Settler();
  Settler(const Settler&) = delete;
  Settler& operator=(const Settler&) = delete;

  // `done` is called on the settler's thread once the disk knows all that was
  // written before, or after a second in any case.
  void Await(std::function<void()> done);

 private:
  void Run();

  Cache* const cache_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::function<void()>> waiting_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace spillway::server
