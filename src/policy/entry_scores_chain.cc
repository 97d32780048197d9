// SPDX-License-Identifier: Apache-2.0
// EntryScores: insertion of entries, chains and their ends, and the records of entries that are
// gone.
#include <algorithm>
#include <new>

#include "policy/entry_scores.h"
#include "policy/use_levels.h"

namespace spillway {
namespace {
// An entry set within this time after its parent belongs to the same request.
constexpr double kSameTurnS = 2;
constexpr std::size_t kForgottenAhead = 8;  // Prefetched before they are forgotten.
}  // namespace

// The turn of an entry that continues `parent`, and the pause before that turn.
void EntryScores::TurnFor(HistoryRecord* record, const HistoryRecord* parent) const {
  record->turn = record->pause = 0;
  record->turn_at = now_;
  if (parent == nullptr || parent->shared) return;
  if (now_ - parent->turn_at < kSameTurnS) {
    record->turn = parent->turn;
    record->pause = parent->pause;
    record->turn_at = parent->turn_at;
  } else {
    record->turn = static_cast<std::uint8_t>(std::min(parent->turn + 1U, kTurnsTold));
    record->pause = static_cast<std::uint8_t>(PauseLevel(now_ - parent->since));
  }
}

// The end of the chain that continues `id` by the first child of each entry, if that chain is not
// longer than the one up to `id`; else none.
HistoryRecordId EntryScores::EndOf(HistoryRecordId id) const {
  for (std::uint32_t left = records_[id].depth + 1; left > 0; --left) {
    const HistoryRecord& record = records_[id];
    if (record.first_child == 0) return id;
    const HistoryRecordId next = record.first_child_record;
    if (next == kNoRecord || records_[next].hash != record.first_child) return id;
    id = next;
  }
  return records_[id].first_child == 0 ? id : kNoRecord;
}

// Most of a chain was used, and it continues in another way (its last block was not full, or its
// end was written again): the chain was used, but its old end will not be.
bool EntryScores::Supersede(HistoryRecordId id, std::uint64_t by) {
  const HistoryRecord& parent = records_[id];
  if (parent.shared || parent.first_child == by) return false;
  const HistoryRecordId last = EndOf(id);
  if (last == kNoRecord || last == id) return false;
  HistoryRecord& end = records_[last];
  if (now_ - end.since < kSameTurnS) return false;
  if (end.waits) {
    end.waits = false;
    if (end.hint == kSaidDone) done_back_ += 1;  // The hint was wrong.
    table_.ReturnAfter(end.c, end.bin, 1, end.entered, end.since, now_ - end.since);
  }
  end.hint = kSuperseded;
  end.c = ClassOf(end);
  if (end.here) StartWait(&end);
  PlaceInLines(last);
  return true;
}

// The old end was used after all: its parent is continued by several entries.
void EntryScores::NotSuperseded(const HistoryRecord& record) {
  const HistoryRecordId parent = Find(record.parent);
  if (parent != kNoRecord) records_[parent].shared = true;
}

// `by` continues the entry, which therefore stops waiting: the end of the chain waits, and the
// client's hint was meant for that end.
void EntryScores::Continue(HistoryRecordId id, const NewEntry& by, HistoryRecordId record) {
  HistoryRecord& parent = records_[id];
  if (parent.first_child == 0 || Supersede(id, by.hash)) {
    parent.first_child = by.hash;
    parent.first_child_record = record;
  }
  if (parent.first_child != by.hash && !parent.shared) {
    parent.shared = true;
    parent.turn = parent.pause = 0;
    parent.hint = kSaidNothing;
    Reclass(id);
  }
  ++parent.children;
  parent.ends = UseLevel(parent.uses) != UseLevel(records_[record].uses);
  if (!parent.ends) StopWait(&parent);
}

HistoryRecordId EntryScores::Enlist(const NewEntry& who, HistoryRecordId remembered,
                                    const Facts& facts) {
  if (who.id.slot >= by_slot_.size()) throw std::bad_alloc();
  const bool known = remembered != kNoRecord;
  const HistoryRecordId id = known ? remembered : records_.Take();
  HistoryRecord& record = records_[id];
  if (known) {
    gone_.Remove(id);
    if (!record.missed) {
      ++ghost_hits_;
      try {
        Used(id, 1, now_);
      } catch (const std::bad_alloc&) {
        record.since = now_;
      }
    } else {
      MoveInWindow(id, now_);
      if (record.waits) StopWait(&record);
      record.since = now_;
    }
  } else {
    record.hash = who.hash;
    record.since = now_;
    record.uses = 1;
    record.window_at = now_;
    window_.Add(now_, facts.bytes);
  }
  record.id = who.id;
  record.parent = who.parent;
  record.bytes = facts.bytes;
  record.seen = static_cast<std::uint32_t>(facts.access_count);
  record.children = 0;
  record.queues = 0;
  record.missed = false;
  record.here = true;
  record.up = record.was_up = false;
  by_slot_[who.id.slot] = id + 1;
  return id;
}

// Takes the place of its parent's open chain, or of the oldest one. A chain that was not continued
// while others were is considered complete.
void EntryScores::Open(HistoryRecordId id, HistoryRecordId parent) {
  ++sets_;
  OpenChain* place = &open_.front();
  for (OpenChain& chain : open_) {
    if (chain.record == kNoRecord || chain.record == parent || sets_ - chain.at > kOpenForSets) {
      if (chain.record != kNoRecord) records_[chain.record].open = false;
      chain = {};
    }
    if (chain.record == kNoRecord ||
        (place->record != kNoRecord && sets_ - chain.at > sets_ - place->at)) {
      place = &chain;
    }
  }
  if (place->record != kNoRecord) records_[place->record].open = false;
  *place = {id, sets_};
  records_[id].open = true;
}

void EntryScores::OnInsert(const NewEntry& who, const Facts& facts, Bytes held, TimePoint now) {
  if (!epoch_) epoch_ = now;
  window_.SetCapacity(held);
  now_ = std::max(now_, SecondsOf(now));
  const HistoryRecordId remembered = who.hash == 0 ? kNoRecord : gone_.Find(who.hash);
  const bool known = remembered != kNoRecord;
  const HistoryRecordId parent = Find(who.parent);
  const double pause_since = parent == kNoRecord ? 0 : records_[parent].since;
  if (parent != kNoRecord) {
    Facts of_parent;
    HistoryRecord like = records_[parent];
    if (reader_->Read(who.parent, &of_parent)) Tick(parent, of_parent);
    // The parent was used just now for this very entry: its pause is the one before that use.
    HistoryRecord& record = records_[parent];
    const HistoryRecordId id = Enlist(who, remembered, facts);
    Continue(parent, who, id);
    if (!known) {
      like.shared = record.shared;
      like.since = pause_since;
      TurnFor(&records_[id], &like);
      records_[id].depth = like.depth + 1;
    }
    Open(id, parent);
    if (!records_[id].waits) Finish(id);
  } else {
    const HistoryRecordId id = Enlist(who, remembered, facts);
    if (!known) TurnFor(&records_[id], nullptr);
    Open(id, kNoRecord);
    if (!records_[id].waits) Finish(id);
  }
}

// `child` was the last entry in the cache that continued `id`. What remains of the chain inherits
// the end's history.
void EntryScores::Inherit(HistoryRecordId id, HistoryRecordId child) {
  HistoryRecord& parent = records_[id];
  Facts facts;
  if (reader_->Read(parent.id, &facts)) Tick(id, facts);
  HistoryRecord& gone = records_[child];
  // The chain is idle since the last use of its end.
  if (gone.since > parent.since) {
    StopWait(&parent);
    parent.since = gone.since;
  }
  if (!parent.ends && !parent.shared) {
    parent.turn = std::max(parent.turn, gone.turn);
    parent.pause = gone.pause;
    parent.turn_at = std::max(parent.turn_at, gone.turn_at);
    parent.state = gone.state;
    parent.hint = gone.hint;
    parent.told_at = gone.told_at;
    StopWait(&gone);  // Its parent waits in its place.
  }
  if (!parent.waits) Finish(id);
}

void EntryScores::Gone(EntryId id, const Facts& facts, bool for_good, TimePoint now) {
  const HistoryRecordId found = Find(id);
  if (found == kNoRecord) return;
  now_ = std::max(now_, SecondsOf(now));
  HistoryRecord& record = records_[found];
  record.queues = 0;
  try {
    Tick(found, facts);
  } catch (const std::bad_alloc&) {
    // The uses are not counted then.
  }
  record.here = record.up = false;
  by_slot_[id.slot] = 0;
  const HistoryRecordId parent = Find(record.parent);
  const bool counts = parent != kNoRecord && records_[parent].children > 0;
  if (counts) --records_[parent].children;
  if (counts && records_[parent].children == 0) {
    try {
      Inherit(parent, found);
    } catch (const std::bad_alloc&) {
      // It starts to count again with its next use.
    }
  }
  if (for_good) window_.Remove(record.window_at, record.bytes);
  try {
    if (for_good || record.hash == 0 || history_max_ == 0 || gone_.Find(record.hash) != kNoRecord) {
      return Drop(found);
    }
    evicted_.push_back({found, record.life + 1});
    gone_.Add(found);
    ++record.life;
  } catch (const std::bad_alloc&) {
    return Drop(found);
  }
  ForgetOldest();
}

void EntryScores::Drop(HistoryRecordId id) {
  for (OpenChain& chain : open_) {
    if (chain.record == id) chain = {};
  }
  StopWait(&records_[id]);
  records_.Give(id);
}

void EntryScores::ForgetOldest() {
  while (!evicted_.empty()) {
    const Evicted oldest = evicted_.front();
    if (evicted_.size() > kForgottenAhead) {
      records_.Prefetch(evicted_[kForgottenAhead].record);
      gone_.Prefetch(records_[evicted_[kForgottenAhead / 2].record].hash);
    }
    const HistoryRecord& record = records_[oldest.record];
    const bool there = !record.here && record.life == oldest.life;
    if (there && gone_.size() <= history_max_) return;
    evicted_.pop_front();
    if (!there) continue;
    gone_.Remove(oldest.record);
    Drop(oldest.record);
  }
}

void EntryScores::WentDown(EntryId id, const Facts& facts) {
  const HistoryRecordId found = Find(id);
  if (found == kNoRecord) return;
  try {
    Tick(found, facts);
  } catch (const std::bad_alloc&) {
    // The uses are not counted then.
  }
  records_[found].up = false;
}

double EntryScores::RateOfNewcomer(const NewEntry& who, TimePoint now) {
  now_ = std::max(now_, SecondsOf(now));
  const HistoryRecordId known = gone_.Find(who.hash);
  HistoryRecord record;
  if (known != kNoRecord) {
    record = records_[known];
    record.uses += record.missed ? 0 : 1;
    record.turn = static_cast<std::uint8_t>(std::min(record.turn + 1U, kTurnsTold));
    record.pause = static_cast<std::uint8_t>(PauseLevel(AgeOf(record)));
    record.hint = kSaidNothing;
  } else {
    record.uses = 1;
    const HistoryRecordId parent = Find(who.parent);
    TurnFor(&record, parent == kNoRecord ? nullptr : &records_[parent]);
  }
  record.c = ClassOf(record);
  return Rate(record, 0);
}

}  // namespace spillway
