// Threads that make the checksums of values while those arrive: one core is
// slower than the link.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "spillway/units.h"
#include "tier/blob.h"

namespace spillway {

class SealCrew {
 public:
  // One value in host memory whose bytes arrive from the front.
  class Job {
   public:
    Job(SealCrew* crew, const std::byte* data, Bytes bytes);
    ~Job();  // Nobody reads the value any more.
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;

    // So many of its first bytes can be read.
    void Arrived(Bytes first);
    // All have arrived: the calling thread helps until it is done.
    Seal Finish();

   private:
    friend class SealCrew;
    SealCrew* const crew_;
    const std::byte* const data_;
    const Bytes bytes_;
    std::vector<Hash128> pieces_;
    // Guarded by the crew's mutex.
    std::size_t ready_ = 0;  // Pieces that can be read.
    std::size_t next_ = 0;   // Pieces taken.
    std::size_t busy_ = 0;   // Taken and not done.
  };

  explicit SealCrew(std::size_t threads);
  ~SealCrew();
  SealCrew(const SealCrew&) = delete;
  SealCrew& operator=(const SealCrew&) = delete;

  // As many as keep up with a link and leave most cores to others.
  static std::size_t ThreadsFor(std::size_t cores);

 private:
  using Lock = std::unique_lock<std::mutex>;

  void Work();
  void HashNext(Lock& lock, Job* job);

  std::mutex mutex_;
  std::condition_variable wanted_;
  std::condition_variable done_;
  std::list<Job*> jobs_;  // Those that may have a piece to take.
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace spillway
