// SPDX-License-Identifier: Apache-2.0
// What a cache does with pressure: samples it between Start and Stop, runs passes over
// its tiers, and gives memory back on request.
#include <algorithm>
#include <chrono>
#include <new>
#include <thread>

#include "base/saturating_add.h"
#include "cache/core.h"

namespace spillway {

// --- sensing ---

Status Core::Start() {
  const MutexLock lock(start_mutex_);
  if (started()) return {};
  for (const TierId tier : kTierIds) {
    PressureMonitor* const monitor = monitors_[IndexOf(tier)].get();
    if (monitor == nullptr) continue;
    RunOn(*strand_,
          [&] { engine_->ExpectSamplesEvery(tier, options_.sample_period, clock_->Now()); });
    try {
      monitor->Start(options_);
    } catch (const std::bad_alloc&) {
      StopSensing();
      return Error{Code::kNoMemory, "no memory"};
    }
  }
  started_.store(true, std::memory_order_relaxed);
  return {};
}

// After Stop pressure is unknown to the engine, and it assumes none.
void Core::Stop() {
  const MutexLock lock(start_mutex_);
  if (!started()) return;
  started_.store(false, std::memory_order_relaxed);
  StopSensing();
}

void Core::StopSensing() {
  for (const std::unique_ptr<PressureMonitor>& monitor : monitors_) {
    if (monitor != nullptr) monitor->Stop();
  }
  RunOn(*strand_, [this] {
    for (const TierId tier : kTierIds) {
      if (monitors_[IndexOf(tier)] == nullptr) continue;
      engine_->ExpectSamplesEvery(tier, Duration::zero(), clock_->Now());
    }
    engine_->ForgetPressure();
  });
}

Core::SampleValue Core::ValueOf(const Result<Reading>& reading) {
  SampleValue value;
  if (!reading) return value;
  const Bytes reserved = std::min(reading->reserved.value_or(0), reading->total);
  if (reading->total > reserved) {
    value.total = reading->total - reserved;
    value.pressure = reading->pressure();
    value.held = reading->held;
  }
  return value;
}

// --- pressure ---

void Core::PassSteps::Step() {
  core_->AdoptFound();
  if (core_->losses_) core_->losses_->Tick(core_->clock_->Now());
  TransferLog& log = core_->engine_->transfer_log();
  const std::uint64_t before = log.left();
  log.Collect(left_);
  try {
    next_ == Next::kTick ? Tick() : Relieve();
  } catch (...) {
    log.Collect(nullptr);  // Its owner may be gone by the next event.
    throw;
  }
  log.Collect(nullptr);
  acted_ = acted_ || log.left() != before;
  if (next_ == Next::kNothing && core_->started())
    core_->engine_->RunBackground(core_->clock_->Now());
}

void Core::PassSteps::Tick() {
  Engine& engine = *core_->engine_;
  const TimePoint now = core_->clock_->Now();
  if (engine.Tick(now)) return;
  const Level before = engine.level(tier_);
  if (sample_) engine.Sample(tier_, sample_->pressure, sample_->total, now, sample_->held);
  const bool run = engine.RunsOnEverySample() || engine.level(tier_) != before;
  next_ = run ? Next::kRelieve : Next::kNothing;
}

// One slice of relief: at most `reclaim_slice` of time, so that other events can run in
// between.
void Core::PassSteps::Relieve() {
  const TimePoint start = core_->clock_->Now();
  progress_ = core_->engine_->Relieve(
      tier_, start, [&] { return core_->clock_->Now() - start > core_->options_.reclaim_slice; });
  if (progress_ != Engine::Progress::kMore) next_ = Next::kNothing;
}

void Core::Pass(const std::optional<SampleValue>& sample, std::vector<Eviction>* left) {
  const TierId top = engine_->store().top();
  for (const TierId tier : kTierIds) {
    if (!Has(engine_->store().tiers(), tier)) continue;
    PassSteps steps(this, tier, tier == top ? sample : std::nullopt, left);
    while (steps.next() != PassSteps::Next::kNothing) {
      RunOn(*strand_, [&] { steps.Step(); });
    }
  }
}

Applied Core::Apply(std::optional<double> pressure) {
  SampleValue value{pressure, total_};
  if (!pressure) {
    PressureMonitor* const monitor = monitors_[IndexOf(engine_->store().top())].get();
    value = monitor == nullptr ? SampleValue{} : ValueOf(monitor->Read());
  }
  Applied applied;
  Pass(value, &applied.left);
  applied.level = engine_->level();
  return applied;
}

Reclaimed Core::ReclaimSome(Bytes bytes, bool* more) {
  Reclaimed reclaimed;
  const TierId top = engine_->store().top();
  RunOn(*strand_, [&] { reclaimed.freed = engine_->GiveBack(top, bytes, clock_->Now(), more); });
  if (reclaimed.freed >= bytes) return reclaimed;
  reclaimed.why_not_more =
      engine_->single()
          ? "no entry has a copy in a lower tier, and reclaim never destroys the last copy"
      : *more ? "the time allowed ran out while more was being copied down"
              : "the rest is pinned by leases, cannot be demoted because lower tiers are full, or "
                "shares a chunk with such blocks";
  return reclaimed;
}

Reclaimed Core::Reclaim(Bytes bytes, Duration within) {
  if (bytes == 0) return {};
  const auto began = std::chrono::steady_clock::now();  // real world: its caller waits
  const Reclaimed reclaimed = ReclaimUntil(bytes, began + BoundedWait(within));
  const auto ended = std::chrono::steady_clock::now();  // real world: as above
  if (reclaimed.freed > 0) GaveBack(reclaimed.freed, ended - began);
  return reclaimed;
}

Reclaimed Core::ReclaimUntil(Bytes bytes, std::chrono::steady_clock::time_point until) {
  Reclaimed reclaimed;
  for (;;) {
    bool more = false;
    Reclaimed some;
    try {
      some = ReclaimSome(bytes - reclaimed.freed, &more);
    } catch (const std::bad_alloc&) {
      reclaimed.why_not_more = "no memory";
      return reclaimed;
    }
    reclaimed.freed += some.freed;
    reclaimed.why_not_more = some.why_not_more;
    if (reclaimed.freed >= bytes || !more) return reclaimed;
    if (std::chrono::steady_clock::now() >= until) return reclaimed;  // real world: as above
    std::this_thread::sleep_for(std::chrono::microseconds(200));      // real world: transfers run
  }
}

// --- the step graph ---

void Core::Attach(std::shared_ptr<StepGraph> graph, Cache::AgentOrder order) {
  StepGraph* const heard = graph.get();
  RunOn(*strand_, [&] {
    if (engine_->graph() != nullptr) engine_->graph()->Listen(this, nullptr);
    engine_->Attach(std::move(graph), std::move(order), clock_->Now());
  });
  if (heard != nullptr) OnGraphChanged(heard);
}

void Core::OnGraphChanged(StepGraph* graph) {
  graph->Listen(this, [weak = weak_from_this()] {
    // The thread that runs the strand holds a reference, too.
    const std::shared_ptr<Core> core = weak.lock();
    if (core == nullptr || core->follow_posted_.exchange(true, std::memory_order_acq_rel)) return;
    core->strand_->Post(&core->follow_task_);
  });
}

std::shared_ptr<StepGraph> Core::step_graph() {
  std::shared_ptr<StepGraph> graph;
  RunOn(*strand_, [&] {
    if (engine_->graph() == nullptr) {
      engine_->Attach(std::make_shared<StepGraph>(), {}, clock_->Now());
      OnGraphChanged(engine_->graph().get());
    }
    graph = engine_->graph();
  });
  return graph;
}

void Core::Advise(std::string_view key, const Advice& advice) {
  if (advice.empty()) return;
  RunOn(*strand_, [&] { engine_->Advise(key, advice, clock_->Now()); });
}

Mode Core::mode() {
  Mode mode = Mode::kRelaxed;
  RunOn(*strand_, [&] {
    engine_->SyncGraph(clock_->Now());
    mode = engine_->mode();
  });
  return mode;
}

void Core::Tick() {
  bool more = true;
  while (more) {
    RunOn(*strand_, [&] {
      AdoptFound();
      more = engine_->Tick(clock_->Now());
    });
  }
}

}  // namespace spillway
