// SPDX-License-Identifier: Apache-2.0
#include "policy/entry_scores.h"

#include <algorithm>
#include <cmath>
#include <new>

#include "policy/use_levels.h"

namespace spillway {
namespace {

constexpr std::uint32_t kSupersededKey = ReturnTable::kDoneKey - 1;
constexpr std::size_t kFirstStepBin = 13;  // The first step ends at two seconds.
// A class of entries said to be done starts as if ten of them had waited an hour without a return.
constexpr double kDoneDoubts = 10;
constexpr double kDoneForS = 3600;
// Of the uses found in one inspection, at most this many are counted.
constexpr std::uint32_t kUsesAtOnce = 16;

}  // namespace

// A step is two bins of the return table, except the first, which covers two seconds.
std::size_t EntryScores::FirstBin(std::size_t step) {
  return step == 0 ? 0 : std::min(kFirstStepBin + 2 * (step - 1), kAgeBins - 1);
}

std::size_t EntryScores::StepOf(double age_s) {
  const std::size_t bin = AgeBin(age_s);
  return bin < kFirstStepBin ? 0 : std::min((bin - kFirstStepBin) / 2 + 1, kSteps - 1);
}

double EntryScores::SecondsOf(TimePoint at) const {
  return std::chrono::duration<double>(at - epoch_.value_or(at)).count();
}

HistoryRecordId EntryScores::Find(EntryId id) const {
  if (id.slot >= by_slot_.size() || by_slot_[id.slot] == 0) return kNoRecord;
  const HistoryRecordId record = by_slot_[id.slot] - 1;
  return records_[record].id == id ? record : kNoRecord;
}

// Classes are never changed once made, so lookups can be cached.
ReturnClass EntryScores::ClassOf(const HistoryRecord& record) {
  const std::uint64_t key = std::uint64_t{record.state} << 32 | std::uint64_t{record.hint} << 24 |
                            std::uint64_t{UseLevel(record.uses)} << 16 |
                            std::uint64_t{record.turn} << 8 | record.pause;
  KnownClass& known = known_classes_[(key * 0x9e3779b97f4a7c15ULL) >> 56];
  if (known.key != key) known = {key, ClassFor(record)};
  return known.c;
}

ReturnClass EntryScores::ClassFor(const HistoryRecord& record) {
  const std::uint32_t uses = UseLevel(record.uses);
  if (IsOver(record)) {
    const std::size_t before = table_.classes();
    const ReturnClass done = table_.Under(
        ReturnTable::kAll, record.hint == kSaidDone ? ReturnTable::kDoneKey : kSupersededKey);
    if (table_.classes() != before) table_.Doubt(done, kDoneDoubts, kDoneForS);
    return table_.Under(done, uses);
  }
  const std::uint32_t said = record.state * std::uint32_t{kHintLevels} + record.hint;
  ReturnClass c = table_.Under(ReturnTable::kAll, said);
  c = table_.Under(c, uses);
  c = table_.Under(c, record.turn);
  return table_.Under(c, record.pause);
}

double EntryScores::Rate(const HistoryRecord& record, double age_s) {
  return table_.Worth(record.c, age_s, now_);
}

// --- waiting ---

void EntryScores::StartWait(HistoryRecord* record) {
  const double age = AgeOf(*record);
  record->bin = static_cast<std::uint8_t>(AgeBin(age));
  // An entry that begins to count late was not counted in this bin before.
  record->entered = record->bin == 0 ? record->since : std::max(now_, record->since);
  table_.Enter(record->c, record->bin, 1, record->entered);
  record->waits = true;
}

void EntryScores::StopWait(HistoryRecord* record) {
  if (!record->waits) return;
  record->waits = false;
  table_.Leave(record->c, record->bin, 1, record->entered, std::max(now_, record->entered));
}

void EntryScores::Requeue(HistoryRecordId id) {
  HistoryRecord& record = records_[id];
  const std::size_t step = StepOf(AgeOf(record));
  queues_[step].push_back({id, record.queued + 1});
  ++record.queued;
  record.aging = true;
  record.step = static_cast<std::uint8_t>(step);
}

void EntryScores::PlaceInLines(HistoryRecordId id) {
  for (std::size_t queue = 0; queue < kScoredQueuesMax; ++queue) {
    const unsigned bit = 1U << queue;
    if ((records_[id].queues & bit) == 0) continue;
    try {
      scored_queues_[queue]->Place(id);
    } catch (const std::bad_alloc&) {
      records_[id].queues = static_cast<std::uint8_t>(records_[id].queues & ~bit);
      lacks_somebody_ = true;
    }
  }
}

// Called after the facts of a record have changed, while it does not wait.
void EntryScores::Finish(HistoryRecordId id) {
  HistoryRecord& record = records_[id];
  record.c = ClassOf(record);
  Requeue(id);
  if (record.children == 0 || record.ends) StartWait(&record);
  PlaceInLines(id);
}

void EntryScores::Reclass(HistoryRecordId id) {
  HistoryRecord& record = records_[id];
  const ReturnClass c = ClassOf(record);
  if (c == record.c) return;
  const bool waited = record.waits;
  StopWait(&record);
  record.c = c;
  if (waited) StartWait(&record);
  PlaceInLines(id);
}

// --- uses ---

// Tells the LRU fallback about a use at `at`: was the entry in the device tier, and would LRU have
// held it?
void EntryScores::Observe(const HistoryRecord& record, double at) {
  if (!record.was_up) return;
  const std::optional<bool> held = window_.Held(record.window_at, at);
  if (!held) return;
  const auto weight = static_cast<std::size_t>(std::max<Bytes>(record.bytes / kKiB, 1));
  lru_fallback_.Observe(now_, weight, record.up ? weight : 0, *held ? weight : 0);
}

void EntryScores::Used(HistoryRecordId id, std::uint32_t uses, double last) {
  HistoryRecord& record = records_[id];
  last = std::max(last, record.since);
  const double gap = (last - record.since) / uses;
  MoveInWindow(id, last);
  if (record.waits) {
    record.waits = false;
    if (record.hint == kSaidDone && last > record.told_at) done_back_ += 1;
    if (record.hint == kSuperseded) NotSuperseded(record);
    table_.ReturnAfter(record.c, record.bin, 1, record.entered, record.since, gap);
    if (uses > 1) table_.WholeWait(record.c, std::min(uses - 1, kUsesAtOnce), gap);
  }
  record.uses += std::min(uses, ~std::uint32_t{0} - record.uses);
  // If several entries continue it, its uses do not belong to one conversation.
  record.turn = static_cast<std::uint8_t>(
      record.shared ? 0 : std::min(record.turn + std::min(uses, kTurnsTold), kTurnsTold));
  record.pause = static_cast<std::uint8_t>(record.shared ? 0 : PauseLevel(gap));
  // A hint is for one wait only. Uses from before the hint may be found after it.
  if (last > record.told_at) record.hint = kSaidNothing;
  record.since = last;
  record.turn_at = last;
  Finish(id);
}

// A use of an entry also uses the entries it continues.
void EntryScores::MoveInWindow(HistoryRecordId id, double at) {
  while (id != kNoRecord && records_[id].window_at < at) {
    HistoryRecord& record = records_[id];
    Observe(record, at);
    window_.Move(record.window_at, at, record.bytes);
    record.window_at = at;
    id = record.here ? Find(record.parent) : kNoRecord;
  }
}

bool EntryScores::Tick(HistoryRecordId id, const Facts& facts) {
  HistoryRecord& record = records_[id];
  const std::uint32_t uses = static_cast<std::uint32_t>(facts.access_count) - record.seen;
  if (uses == 0) return false;
  record.seen += uses;
  Used(id, uses, SecondsOf(facts.last_use));
  return true;
}

void EntryScores::Missed(std::uint64_t hash, TimePoint at) {
  const HistoryRecordId id = gone_.Find(hash);
  if (id == kNoRecord) return;
  ++ghost_hits_;
  records_[id].missed = true;
  Used(id, 1, std::min(SecondsOf(at), now_));
}

// --- queues ---

bool EntryScores::Join(EntryId id, const Facts& facts, std::uint8_t queue, bool top) {
  try {
    HistoryRecordId found = Find(id);
    if (found == kNoRecord) {  // It was inserted without being announced.
      found = Enlist({.id = id, .hash = 0, .parent = {}}, kNoRecord, facts);
      records_[found].since = std::min(SecondsOf(facts.last_use), now_);
      Finish(found);
    }
    HistoryRecord& record = records_[found];
    if (top && !record.up) {
      Tick(found, facts);
      record.up = record.was_up = true;
    }
    const auto bit = static_cast<std::uint8_t>(1U << queue);
    if ((record.queues & bit) != 0) return true;
    if (!record.aging) Requeue(found);
    record.queues = static_cast<std::uint8_t>(record.queues | bit);
    try {
      scored_queues_[queue]->Place(found);
    } catch (const std::bad_alloc&) {
      record.queues = static_cast<std::uint8_t>(record.queues & ~bit);
      return false;
    }
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void EntryScores::OnRemove(EntryId id, std::uint8_t queue) {
  const HistoryRecordId found = Find(id);
  if (found == kNoRecord) return;
  records_[found].queues = static_cast<std::uint8_t>(records_[found].queues & ~(1U << queue));
}

}  // namespace spillway
