// SPDX-License-Identifier: Apache-2.0
#include "tier/seal_crew.h"

#include <pthread.h>

#include <algorithm>
#include <system_error>

#include "base/quiet_thread.h"

namespace spillway {

SealCrew::SealCrew(std::size_t threads) {
  threads_.reserve(threads);
  for (std::size_t i = 0; i < threads; ++i) {
    try {
      threads_.push_back(QuietThread([this] {
        ::pthread_setname_np(::pthread_self(), "spillway-seal");
        Work();
      }));
    } catch (const std::system_error&) {
      return;  // Fewer threads are slower; Finish can do all the work alone.
    }
  }
}

SealCrew::~SealCrew() {
  {
    const MutexLock lock(mutex_);
    closing_ = true;
  }
  wanted_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::size_t SealCrew::ThreadsFor(std::size_t cores) {
  return std::clamp<std::size_t>(cores * 3 / 4, 1, 12);
}

void SealCrew::HashNext(Job* job) {
  job->crew_->mutex_.AssertHeld();  // It is ours.
  const std::size_t piece = job->next_++;
  ++job->busy_;
  {
    const MutexUnlock unlock(mutex_);
    const Bytes at = piece * Seal::kPieceBytes;
    job->pieces_[piece] = Hash128Of(job->data_ + at, std::min(Seal::kPieceBytes, job->bytes_ - at));
  }
  if (--job->busy_ == 0) done_.notify_all();
}

void SealCrew::Work() {
  const MutexLock lock(mutex_);
  for (;;) {
    const auto job = std::find_if(jobs_.begin(), jobs_.end(), [](const Job* one) {
      one->crew_->mutex_.AssertHeld();  // It is ours.
      return one->next_ < one->ready_;
    });
    if (job != jobs_.end()) {
      HashNext(*job);
    } else if (closing_) {
      return;
    } else {
      wanted_.wait(mutex_);
    }
  }
}

SealCrew::Job::Job(SealCrew* crew, const std::byte* data, Bytes bytes)
    : crew_(crew), data_(data), bytes_(bytes), pieces_(Seal::PiecesIn(bytes)) {
  const MutexLock lock(crew_->mutex_);
  crew_->jobs_.push_back(this);
}

SealCrew::Job::~Job() {
  const MutexLock lock(crew_->mutex_);
  ready_ = next_;  // Pieces that no thread has taken are not wanted any more.
  while (busy_ > 0) crew_->done_.wait(crew_->mutex_);
  crew_->jobs_.remove(this);
}

void SealCrew::Job::Arrived(Bytes first) {
  const MutexLock lock(crew_->mutex_);
  const std::size_t ready = first == bytes_ ? pieces_.size() : first / Seal::kPieceBytes;
  if (ready <= ready_) return;
  ready_ = ready;
  crew_->wanted_.notify_all();
}

Seal SealCrew::Job::Finish() {
  Arrived(bytes_);
  const MutexLock lock(crew_->mutex_);
  while (next_ < ready_) crew_->HashNext(this);
  while (busy_ > 0) crew_->done_.wait(crew_->mutex_);
  return Seal(std::move(pieces_));
}

}  // namespace spillway
