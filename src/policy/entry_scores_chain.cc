// Who comes, what it continues, what is left of a chain when its end goes, and
// what is remembered of those who are gone.
#include <algorithm>
#include <new>

#include "policy/entry_scores.h"
#include "policy/use_levels.h"

namespace spillway {
namespace {
// What is set within this time after what it continues is of one request.
constexpr double kSameTurnS = 2;
constexpr std::size_t kForgottenAhead = 8;  // Fetched before they are forgotten.
}  // namespace

// Which turn one is of that continues `parent`, and after which pause.
void EntryScores::TurnFor(Note* note, const Note* parent) const {
  note->turn = note->pause = 0;
  note->turn_at = now_;
  if (parent == nullptr || parent->shared) return;
  if (now_ - parent->turn_at < kSameTurnS) {
    note->turn = parent->turn;
    note->pause = parent->pause;
    note->turn_at = parent->turn_at;
  } else {
    note->turn = static_cast<std::uint8_t>(std::min(parent->turn + 1U, kTurnsTold));
    note->pause = static_cast<std::uint8_t>(PauseLevel(now_ - parent->since));
  }
}

// The end of the chain that goes on from `id` by those who continued first, if
// that is not longer than the way there; else none.
NoteId EntryScores::EndOf(NoteId id) const {
  for (std::uint32_t left = notes_[id].depth + 1; left > 0; --left) {
    const Note& note = notes_[id];
    if (note.first_child == 0) return id;
    const NoteId next = note.first_child_note;
    if (next == kNoNote || notes_[next].hash != note.first_child) return id;
    id = next;
  }
  return notes_[id].first_child == 0 ? id : kNoNote;
}

// Most of a chain is used and goes on another way (its last block was not full,
// its end was written anew): the chain was used, the old end of it is over.
bool EntryScores::Supersede(NoteId id, std::uint64_t by) {
  const Note& parent = notes_[id];
  if (parent.shared || parent.first_child == by) return false;
  const NoteId last = EndOf(id);
  if (last == kNoNote || last == id) return false;
  Note& end = notes_[last];
  if (now_ - end.since < kSameTurnS) return false;
  if (end.waits) {
    end.waits = false;
    table_.ReturnAfter(end.c, end.bin, 1, end.entered, end.since, now_ - end.since);
  }
  end.hint = kSuperseded;
  end.c = ClassOf(end);
  if (end.here) StartWait(&end);
  PlaceInLines(last);
  return true;
}

// It was used all the same: those that continue its parent are several.
void EntryScores::NotSuperseded(const Note& note) {
  const NoteId parent = Find(note.parent);
  if (parent != kNoNote) notes_[parent].shared = true;
}

// `by` continues it: it does not wait any more, and its client's word was for
// the end of the chain.
void EntryScores::Continue(NoteId id, const Newcomer& by, NoteId note) {
  Note& parent = notes_[id];
  if (parent.first_child == 0 || Supersede(id, by.hash)) {
    parent.first_child = by.hash;
    parent.first_child_note = note;
  }
  if (parent.first_child != by.hash && !parent.shared) {
    parent.shared = true;
    parent.turn = parent.pause = 0;
    parent.hint = kSaidNothing;
    Reclass(id);
  }
  ++parent.children;
  parent.ends = UseLevel(parent.uses) != UseLevel(notes_[note].uses);
  if (!parent.ends) StopWait(&parent);
}

NoteId EntryScores::Enlist(const Newcomer& who, NoteId remembered, const Facts& facts) {
  if (who.id.slot >= by_slot_.size()) throw std::bad_alloc();
  const bool known = remembered != kNoNote;
  const NoteId id = known ? remembered : notes_.Take();
  Note& note = notes_[id];
  if (known) {
    gone_.Remove(id);
    if (!note.missed) {
      ++ghost_hits_;
      try {
        Used(id, 1, now_);
      } catch (const std::bad_alloc&) {
        note.since = now_;
      }
    } else {
      MoveInWindow(id, now_);
      if (note.waits) StopWait(&note);
      note.since = now_;
    }
  } else {
    note.hash = who.hash;
    note.since = now_;
    note.uses = 1;
    note.window_at = now_;
    window_.Add(now_, facts.bytes);
  }
  note.id = who.id;
  note.parent = who.parent;
  note.bytes = facts.bytes;
  note.seen = static_cast<std::uint32_t>(facts.access_count);
  note.children = 0;
  note.lines = 0;
  note.missed = false;
  note.here = true;
  note.up = note.was_up = false;
  by_slot_[who.id.slot] = id + 1;
  return id;
}

// In place of what it continues, or of the oldest.
void EntryScores::Open(NoteId id, NoteId parent) {
  auto at = parent == kNoNote ? open_.end() : std::ranges::find(open_, parent);
  if (at == open_.end()) at = open_.begin() + static_cast<std::ptrdiff_t>(open_at_++ % kOpenMax);
  if (*at != kNoNote) notes_[*at].open = false;
  *at = id;
  notes_[id].open = true;
}

void EntryScores::Welcome(const Newcomer& who, const Facts& facts, Bytes held, TimePoint now) {
  if (!epoch_) epoch_ = now;
  window_.SetCapacity(HeldByNoted(held));
  now_ = std::max(now_, SecondsOf(now));
  const NoteId remembered = who.hash == 0 ? kNoNote : gone_.Find(who.hash);
  const bool known = remembered != kNoNote;
  const NoteId parent = Find(who.parent);
  const double pause_since = parent == kNoNote ? 0 : notes_[parent].since;
  if (parent != kNoNote) {
    Facts of_parent;
    Note like = notes_[parent];
    if (reader_->Read(who.parent, &of_parent)) Look(parent, of_parent);
    // It was used for this very one just now: that is not its pause.
    Note& note = notes_[parent];
    const NoteId id = Enlist(who, remembered, facts);
    Continue(parent, who, id);
    if (!known) {
      like.shared = note.shared;
      like.since = pause_since;
      TurnFor(&notes_[id], &like);
      notes_[id].depth = like.depth + 1;
    }
    Open(id, parent);
    if (!notes_[id].waits) Settle(id);
  } else {
    const NoteId id = Enlist(who, remembered, facts);
    if (!known) TurnFor(&notes_[id], nullptr);
    Open(id, kNoNote);
    if (!notes_[id].waits) Settle(id);
  }
}

// `child` was the last here that continued `id`: what was known of it is known of
// what is left of the chain.
void EntryScores::Inherit(NoteId id, NoteId child) {
  Note& parent = notes_[id];
  Facts facts;
  if (reader_->Read(parent.id, &facts)) Look(id, facts);
  Note& gone = notes_[child];
  // A chain is idle since its end is.
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
    StopWait(&gone);  // It waits in its parent.
  }
  if (!parent.waits) Settle(id);
}

void EntryScores::Gone(EntryId id, const Facts& facts, bool for_good, TimePoint now) {
  const NoteId found = Find(id);
  if (found == kNoNote) return;
  now_ = std::max(now_, SecondsOf(now));
  Note& note = notes_[found];
  note.lines = 0;
  try {
    Look(found, facts);
  } catch (const std::bad_alloc&) {
    // Then so much is not known of it.
  }
  note.here = note.up = false;
  by_slot_[id.slot] = 0;
  const NoteId parent = Find(note.parent);
  if (parent != kNoNote && notes_[parent].children > 0 && --notes_[parent].children == 0) {
    try {
      Inherit(parent, found);
    } catch (const std::bad_alloc&) {
      // It counts when it is used.
    }
  }
  if (for_good) window_.Remove(note.window_at, note.bytes);
  try {
    if (for_good || note.hash == 0 || history_max_ == 0 || gone_.Find(note.hash) != kNoNote) {
      return Drop(found);
    }
    departed_.push_back({found, note.life + 1});
    gone_.Add(found);
    ++note.life;
  } catch (const std::bad_alloc&) {
    return Drop(found);
  }
  ForgetOldest();
}

void EntryScores::Drop(NoteId id) {
  std::ranges::replace(open_, id, kNoNote);
  StopWait(&notes_[id]);
  notes_.Give(id);
}

void EntryScores::ForgetOldest() {
  while (!departed_.empty()) {
    const Departed oldest = departed_.front();
    if (departed_.size() > kForgottenAhead) {
      notes_.Prefetch(departed_[kForgottenAhead].note);
      gone_.Prefetch(notes_[departed_[kForgottenAhead / 2].note].hash);
    }
    const Note& note = notes_[oldest.note];
    const bool there = !note.here && note.life == oldest.life;
    if (there && gone_.size() <= history_max_) return;
    departed_.pop_front();
    if (!there) continue;
    gone_.Remove(oldest.note);
    Drop(oldest.note);
  }
}

void EntryScores::WentDown(EntryId id, const Facts& facts) {
  const NoteId found = Find(id);
  if (found == kNoNote) return;
  try {
    Look(found, facts);
  } catch (const std::bad_alloc&) {
    // Then so much is not known of it.
  }
  notes_[found].up = false;
}

double EntryScores::RateOfNewcomer(const Newcomer& who, TimePoint now) {
  now_ = std::max(now_, SecondsOf(now));
  const NoteId known = gone_.Find(who.hash);
  Note note;
  if (known != kNoNote) {
    note = notes_[known];
    note.uses += note.missed ? 0 : 1;
    note.turn = static_cast<std::uint8_t>(std::min(note.turn + 1U, kTurnsTold));
    note.pause = static_cast<std::uint8_t>(PauseLevel(AgeOf(note)));
    note.hint = kSaidNothing;
  } else {
    note.uses = 1;
    const NoteId parent = Find(who.parent);
    TurnFor(&note, parent == kNoNote ? nullptr : &notes_[parent]);
  }
  note.c = ClassOf(note);
  return Rate(note, 0);
}

}  // namespace spillway
