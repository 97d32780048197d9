// SPDX-License-Identifier: Apache-2.0
#include "cache/pressure_monitor.h"

#include <algorithm>
#include <chrono>
#include <new>

#include "cache/core.h"

namespace spillway {

namespace {
// A driver may be slower than a short sample period; that is no reason to give it up.
constexpr Duration kShortestDeadline = std::chrono::milliseconds(20);
constexpr Duration kByHandDeadline = std::chrono::milliseconds(200);
}  // namespace

class PressureMonitor::Steps : public Core::PassSteps {
  using PassSteps::PassSteps;
};

PressureMonitor::PressureMonitor(Core* core, TierId tier, std::shared_ptr<PressureSource> source)
    : core_(core), tier_(tier), source_(std::move(source)), by_hand_(source_) {}

PressureMonitor::~PressureMonitor() = default;

void PressureMonitor::Start(const Options& options) {
  const MutexLock lock(watch_mutex_);
  if (watch_ != nullptr) return;
  Poller::Settings settings;
  settings.pace.slowest = options.sample_period;
  settings.pace.near = std::min(options.sample_period, settings.pace.near);
  settings.pace.thresholds = options.thresholds;
  // So that pressure is UNKNOWN by the end of the third period without a reading: one
  // passes before the call, two before the watchdog notices.
  settings.deadline = std::max(options.sample_period, kShortestDeadline);
  watch_ = Poller::Shared().Add(source_, settings, this);
}

void PressureMonitor::Stop() {
  const MutexLock lock(watch_mutex_);
  watch_.reset();
  pass_.reset();
}

Result<Reading> PressureMonitor::Read() {
  const MutexLock lock(watch_mutex_);
  if (watch_ == nullptr) return by_hand_.Read(kByHandDeadline);
  const MutexLock reading_lock(reading_mutex_);
  if (!reading_) return Error{Code::kUnavailable, "no reading yet"};
  return *reading_;
}

// Each reading starts a pass; its steps run one by one, by Continue.
Poller::Client::Next PressureMonitor::OnReading(const Result<Reading>& reading) {
  if (reading) {
    const MutexLock lock(reading_mutex_);
    NoteOthers(*reading);
    reading_ = *reading;
    read_at_ = core_->clock().Now();
  }
  try {
    pass_ = std::make_unique<Steps>(core_, tier_, Core::ValueOf(reading));
  } catch (const std::bad_alloc&) {
    return Next::kWait;
  }
  const Next next = Continue();
  // Relief mostly has nothing to do: not worth another turn of the poller to find out.
  return next == Next::kMore ? Continue() : next;
}

// A process that takes much memory takes it in steps: those within a second are one
// rise.
void PressureMonitor::NoteOthers(const Reading& reading) {
  constexpr Duration kApart = std::chrono::seconds(1);
  if (tier_ == TierId::kDisk) return;
  const Bytes ours = reading.held.value_or(core_->engine().store().held(tier_));
  const Bytes others = reading.total - std::min(reading.total, reading.free + ours);
  if (!reading_) others_before_ = others;
  others_before_ = std::min(others_before_, others);
  const bool more = others >= others_before_ + reading.total / 64;
  // One reading may take memory that is on its way between us and the card for others'
  // memory; two in a row do not.
  if (!more) rise_unix_us_ = 0;
  if (more && rise_unix_us_ == 0) {
    const auto unix = std::chrono::system_clock::now();  // real world: others' clocks say it so
    rise_unix_us_ =
        std::chrono::duration_cast<std::chrono::microseconds>(unix.time_since_epoch()).count();
  } else if (more) {
    const TimePoint now = core_->clock().Now();
    if (rose_unix_us_ == 0 || now - rose_at_ > kApart) rose_unix_us_ = rise_unix_us_;
    rose_at_ = now;
    others_before_ = others;
    rise_unix_us_ = 0;
  }
}

Poller::Client::Next PressureMonitor::Continue() {
  try {
    RunOn(core_->strand(), [this] { pass_->Step(); });
  } catch (const std::bad_alloc&) {
    return Next::kWait;  // With the next reading.
  }
  if (pass_->next() != Core::PassSteps::Next::kNothing) return Next::kMore;
  return pass_->acted() ? Next::kAgain : Next::kWait;
}

void PressureMonitor::CountInto(SourceStats* stats) {
  stats->name = source_->name();
  {
    const MutexLock lock(reading_mutex_);
    stats->reading = reading_;
    stats->others_rose_unix_us = rose_unix_us_;
    if (reading_) stats->age = core_->clock().Now() - read_at_;
  }
  const MutexLock lock(watch_mutex_);
  if (watch_ == nullptr) return;
  const Poller::Account account = watch_->account();
  stats->watched = true;
  stats->hung = account.hung;
  stats->reads = account.reads;
  stats->failures = account.failures;
  stats->hangs = account.hangs;
  stats->cost = account.cost;
  stats->wait = account.wait;
  stats->last_error = account.last_error;
}

}  // namespace spillway
