// SPDX-License-Identifier: Apache-2.0
// Threads that compute the checksums of values while the bytes arrive. One core
// hashes slower than the link to the device copies.
#pragma once

#include <cstddef>
#include <list>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "spillway/units.h"
#include "tier/blob.h"

namespace spillway {

class SealCrew {
 public:
  // One value in host memory whose bytes arrive front to back.
  class Job {
   public:
    Job(SealCrew* crew, const std::byte* data, Bytes bytes);
    ~Job();  // Waits until no thread reads the value any more.
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;

    // The first `first` bytes can now be read.
    void Arrived(Bytes first);
    // All bytes have arrived. The calling thread helps until the checksums are done.
    Seal Finish();

   private:
    friend class SealCrew;
    SealCrew* const crew_;
    const std::byte* const data_;
    const Bytes bytes_;
    std::vector<Hash128> pieces_;
    // Pieces that can be read; that a thread has taken; that are being hashed.
    std::size_t ready_ SPILLWAY_GUARDED_BY(crew_->mutex_) = 0;
    std::size_t next_ SPILLWAY_GUARDED_BY(crew_->mutex_) = 0;
    std::size_t busy_ SPILLWAY_GUARDED_BY(crew_->mutex_) = 0;
  };

  explicit SealCrew(std::size_t threads);
  ~SealCrew();
  SealCrew(const SealCrew&) = delete;
  SealCrew& operator=(const SealCrew&) = delete;

  // Enough threads to keep up with a link, while most cores stay free for other work.
  static std::size_t ThreadsFor(std::size_t cores);

 private:
  void Work();
  // Hashes the job's next piece, with the lock released meanwhile.
  void HashNext(Job* job) SPILLWAY_REQUIRES(mutex_);

  Mutex mutex_;
  CondVar wanted_;
  CondVar done_;
  // Jobs that may have pieces to hash.
  std::list<Job*> jobs_ SPILLWAY_GUARDED_BY(mutex_);
  bool closing_ SPILLWAY_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace spillway
