// A Batch carries the operations of one Submit to their end. Each set is three
// steps: admitted on the strand, copied, committed on the strand. The copy is
// made by the submitter if admission was quick enough to find it still there,
// and by the executor otherwise.
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
  static void Submit(std::shared_ptr<Core> core, Operation* operations, std::size_t count,
                     Duration within, Completion done);

 private:
  // Who goes on after admission: whoever of strand and submitter comes second.
  enum class Step : std::uint8_t { kSubmitted, kAdmitted, kLeft };
  struct Item : Strand::Task, Waiter, Engine::Parked {
    Batch* batch = nullptr;
    Operation* operation = nullptr;
    NewEntry entry;
    std::uint32_t slot = 0;
    bool late = false;  // It was whole too late, and has been aborted.
    std::atomic<Step> step{Step::kSubmitted};
  };

  static std::unique_ptr<Batch> Make(std::shared_ptr<Core> core, std::size_t count,
                                     Duration within);
  Batch(std::shared_ptr<Core> core, std::size_t count, Duration within);
  void Begin(Operation* operation, Item* item);
  void BeginSet(Item* item);
  void BeginGet(Item* item);
  static void Fetch(Strand::Task* task);
  static void Fetched(Waiter* waiter, Slot* leased, Status status);
  static void CopyOut(Strand::Task* task);
  void FinishGet(Item* item);
  static void Admit(Strand::Task* task);
  static bool Retry(Engine::Parked* parked, bool expired);
  void Admitted(Item* item);
  void FinishAdmit(Item* item, const Error& error);
  void TooLate(Item* item, std::string_view before);
  static void Copy(Strand::Task* task);
  static void Commit(Strand::Task* task);
  static void Erase(Strand::Task* task);
  // It is done; what it replaced may still have to leave the disk.
  void FinishWrite(Item* item);
  static void Settle(Strand::Task* task);
  // Does a part of an item's work; without memory for that the item ends so.
  template <typename Work>
  static void Guarded(Item* item, Work&& work);
  bool TooLate() const { return core_->clock().Now() > deadline_; }
  void Finish(Item* item, Status status);
  void EndOne();

  const std::shared_ptr<Core> core_;
  const TimePoint deadline_;
  std::optional<Completion> done_;  // Submit gives it.
  std::vector<std::unique_ptr<Item>> items_;
  std::atomic<std::size_t> open_;  // Items not finished, and the submitter.
};

}  // namespace spillway
