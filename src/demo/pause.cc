#include "demo/pause.h"

#include <condition_variable>
#include <mutex>

namespace spillway::demo {

bool PauseFor(const std::stop_token& stop, Duration time) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, time, [] { return false; });
  return !stop.stop_requested();
}

}  // namespace spillway::demo
