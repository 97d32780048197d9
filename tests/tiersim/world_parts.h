// SPDX-License-Identifier: Apache-2.0
// The world's strand, executor and transfer queue: what they are given is queued.
#pragma once

#include "tiersim/world.h"

namespace spillway::tiersim {

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
  void Run(Strand::Task* task) override {
    world_->pending_.push_back({.kind = Pending::Kind::kCopy, .task = task});
  }

 private:
  World* const world_;
};

class World::SimTransferQueue final : public TransferQueue {
 public:
  explicit SimTransferQueue(World* world) : world_(world) {}
  void Start(Transfer* transfer) override { world_->StartMove(transfer); }
  void Raise(Transfer* transfer, Priority priority) override {
    for (const PendingTransfer& pending : world_->transfers_) {
      if (pending.move == transfer) transfer->priority = priority;
    }
  }
  std::size_t Waiting(TierId from, TierId to) const override {
    return world_->waiting_[IndexOf(from) * kTiers + IndexOf(to)];
  }

 private:
  World* const world_;
};

// While it exists this is the strand: posted tasks are queued.
class World::OnStrand {
 public:
  explicit OnStrand(World* world) : world_(world), before_(world->on_strand_) {
    world_->on_strand_ = true;
    world_->refusals_before_ = world_->Refusals();
  }
  ~OnStrand() { world_->on_strand_ = before_; }
  OnStrand(const OnStrand&) = delete;
  OnStrand& operator=(const OnStrand&) = delete;

 private:
  World* const world_;
  const bool before_;
};

// While it exists, a task runs as soon as it is posted: a call waits for it.
class World::Waiting {
 public:
  explicit Waiting(World* world) : world_(world) { world_->waiting_now_ = true; }
  ~Waiting() { world_->waiting_now_ = false; }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  World* const world_;
};

}  // namespace spillway::tiersim
