// SPDX-License-Identifier: Apache-2.0
// The world's strand and executor: posted tasks are queued by the world.
#pragma once

#include "sim/world.h"

namespace spillway::sim {

class World::SimStrand final : public Strand {
 public:
  explicit SimStrand(World* world) : world_(world) {}
  void Post(Task* task) override { world_->Posted(task); }

 private:
  World* const world_;
};

class World::SimExecutor final : public Executor {
 public:
  explicit SimExecutor(World* world) : world_(world) {}
  void Run(Strand::Task* task) override { world_->Posted(task); }

 private:
  World* const world_;
};

// While it exists, a task runs as soon as it is posted: a call waits for it.
class World::Waiting {
 public:
  Waiting(World* world, Inline how) : world_(world) {
    world_->inline_ = how;
    if (how == Inline::kQuiet && !world_->dead_) world_->judge_->BeginQuiet(world_->now());
  }
  ~Waiting() {
    world_->EndInlineLook(false);
    world_->inline_ = Inline::kNo;
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  World* const world_;
};

}  // namespace spillway::sim
