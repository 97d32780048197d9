#include "monitor/sampler.h"

#include <pthread.h>

#include <condition_variable>
#include <mutex>
#include <thread>

namespace spillway {

namespace {
constexpr auto kPatience = std::chrono::seconds(1);
}  // namespace

// Shared with the thread, which may outlive the Sampler if its source hangs.
struct Sampler::Shared {
  std::shared_ptr<PressureSource> source;
  Duration period;
  Sink sink;

  std::mutex mutex;
  std::condition_variable changed;
  bool stop = false;        // Guarded by mutex.
  bool handing_on = false;  // Guarded by mutex: the sink is running.
  bool ended = false;       // Guarded by mutex.

  void Loop() {
    std::unique_lock lock(mutex);
    while (!stop) {
      lock.unlock();
      const Result<Reading> reading = source->Read();
      lock.lock();
      if (stop) break;
      handing_on = true;
      lock.unlock();
      sink(reading);
      lock.lock();
      handing_on = false;
      changed.notify_all();
      changed.wait_for(lock, period, [this] { return stop; });  // real world: paces the readings
    }
    ended = true;
    changed.notify_all();
  }
};

Sampler::Sampler(std::shared_ptr<PressureSource> source, Duration period, Sink sink)
    : shared_(std::make_shared<Shared>()) {
  shared_->source = std::move(source);
  shared_->period = period;
  shared_->sink = std::move(sink);
  std::thread([shared = shared_] {
    pthread_setname_np(pthread_self(), "spillway-sample");
    shared->Loop();
  }).detach();
}

Sampler::~Sampler() {
  std::unique_lock lock(shared_->mutex);
  shared_->stop = true;
  shared_->changed.notify_all();
  // The sink must have returned; a hung reading may be left behind.
  shared_->changed.wait(lock, [this] { return !shared_->handing_on; });
  shared_->changed.wait_for(lock, kPatience,
                            [this] { return shared_->ended; });  // real world: bounded wait
}

}  // namespace spillway
