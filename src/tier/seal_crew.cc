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
      return;  // Fewer are slower; who finishes a job does it alone, if need be.
    }
  }
}

SealCrew::~SealCrew() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wanted_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::size_t SealCrew::ThreadsFor(std::size_t cores) {
  return std::clamp<std::size_t>(cores * 3 / 4, 1, 12);
}

void SealCrew::HashNext(Lock& lock, Job* job) {
  const std::size_t piece = job->next_++;
  ++job->busy_;
  lock.unlock();
  const Bytes at = piece * Seal::kPieceBytes;
  job->pieces_[piece] = Hash128Of(job->data_ + at, std::min(Seal::kPieceBytes, job->bytes_ - at));
  lock.lock();
  if (--job->busy_ == 0) done_.notify_all();
}

void SealCrew::Work() {
  Lock lock(mutex_);
  for (;;) {
    const auto job = std::find_if(jobs_.begin(), jobs_.end(),
                                  [](const Job* one) { return one->next_ < one->ready_; });
    if (job != jobs_.end()) {
      HashNext(lock, *job);
    } else if (closing_) {
      return;
    } else {
      wanted_.wait(lock);
    }
  }
}

SealCrew::Job::Job(SealCrew* crew, const std::byte* data, Bytes bytes)
    : crew_(crew), data_(data), bytes_(bytes), pieces_(Seal::PiecesIn(bytes)) {
  const std::lock_guard lock(crew_->mutex_);
  crew_->jobs_.push_back(this);
}

SealCrew::Job::~Job() {
  Lock lock(crew_->mutex_);
  ready_ = next_;  // Whatever is not begun is not wanted.
  crew_->done_.wait(lock, [&] { return busy_ == 0; });
  crew_->jobs_.remove(this);
}

void SealCrew::Job::Arrived(Bytes first) {
  const std::lock_guard lock(crew_->mutex_);
  const std::size_t ready = first == bytes_ ? pieces_.size() : first / Seal::kPieceBytes;
  if (ready <= ready_) return;
  ready_ = ready;
  crew_->wanted_.notify_all();
}

Seal SealCrew::Job::Finish() {
  Arrived(bytes_);
  Lock lock(crew_->mutex_);
  while (next_ < ready_) crew_->HashNext(lock, this);
  crew_->done_.wait(lock, [&] { return busy_ == 0; });
  return Seal(std::move(pieces_));
}

}  // namespace spillway
