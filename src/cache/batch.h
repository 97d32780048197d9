// SPDX-License-Identifier: Apache-2.0
// A Batch carries out the operations of one Submit. Each set is three steps: admitted
// on the strand, copied, committed on the strand. The submitting thread makes the copy
// if admission is done before that thread leaves Submit, and the executor otherwise.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "base/strand.h"
#include "cache/core.h"

namespace spillway {

class Batch {
 public:
  // `ttl_from`: when the ttls of its sets began; empty: now.
  static void Submit(std::shared_ptr<Core> core, Operation* operations, std::size_t count,
                     Duration within, Completion done, std::optional<TimePoint> ttl_from = {});

 private:
  // State of a set's admission. The strand or the submitting thread, whichever is
  // later, continues with the copy.
  enum class Step : std::uint8_t { kSubmitted, kAdmitted, kLeft };
  struct Item : Strand::Task, PendingGet, Engine::PendingSet {
    Batch* batch = nullptr;
    Operation* operation = nullptr;
    NewEntry entry;
    std::uint32_t slot = 0;
    bool late = false;  // Its deadline passed during the copy; it was aborted.
    std::atomic<Step> step{Step::kSubmitted};
  };

  static std::unique_ptr<Batch> Make(std::shared_ptr<Core> core, std::size_t count,
                                     Duration within);
  Batch(std::shared_ptr<Core> core, std::size_t count, Duration within);
  void Begin(Operation* operation, Item* item);
  void BeginSet(Item* item);
  void BeginGet(Item* item);
  static void Fetch(Strand::Task* task);
  static void Fetched(PendingGet* pending_get, Slot* leased, Status status);
  static void CopyOut(Strand::Task* task);
  void FinishGet(Item* item);
  static void Admit(Strand::Task* task);
  static bool Retry(Engine::PendingSet* pending_set, bool expired);
  void Admitted(Item* item);
  void FinishAdmit(Item* item, const Error& error);
  void TooLate(Item* item, std::string_view before);
  static void Copy(Strand::Task* task);
  static void Commit(Strand::Task* task);
  static void Erase(Strand::Task* task);
  // The write is done; the disk may still have to record that the replaced value is
  // gone.
  void FinishWrite(Item* item);
  static void FlushDeletes(Strand::Task* task);
  // Runs a part of an item's work; without memory for it the item ends with NoMemory.
  template <typename Work>
  static void Guarded(Item* item, Work&& work);
  bool TooLate() const { return core_->clock().Now() > deadline_; }
  void Finish(Item* item, Status status);
  void EndOne();

  const std::shared_ptr<Core> core_;
  const TimePoint deadline_;
  std::optional<Completion> done_;     // Set by Submit.
  std::optional<TimePoint> ttl_from_;  // Likewise.
  std::vector<std::unique_ptr<Item>> items_;
  std::atomic<std::size_t> open_;  // Items not finished, plus one for the submitter.
};

}  // namespace spillway
