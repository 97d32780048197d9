#include "policy/entry_scores.h"

#include <algorithm>
#include <cmath>
#include <new>

#include "policy/use_levels.h"

namespace spillway {
namespace {

constexpr std::uint32_t kSupersededKey = ReturnTable::kDoneKey - 1;
constexpr std::size_t kFirstStepBin = 13;  // From two seconds on.
// Who is said to be done is doubted as if ten such had waited an hour in vain.
constexpr double kDoneDoubts = 10;
constexpr double kDoneForS = 3600;
// Uses found at one look beyond this are not all counted.
constexpr std::uint32_t kUsesAtOnce = 16;

}  // namespace

// Two bins of the table to a step, but the first: two seconds.
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

NoteId EntryScores::Find(EntryId id) const {
  if (id.slot >= by_slot_.size() || by_slot_[id.slot] == 0) return kNoNote;
  const NoteId note = by_slot_[id.slot] - 1;
  return notes_[note].id == id ? note : kNoNote;
}

// A class once made stays what it is.
ReturnClass EntryScores::ClassOf(const Note& note) {
  const std::uint64_t key = std::uint64_t{note.state} << 32 | std::uint64_t{note.hint} << 24 |
                            std::uint64_t{UseLevel(note.uses)} << 16 |
                            std::uint64_t{note.turn} << 8 | note.pause;
  KnownClass& known = known_classes_[(key * 0x9e3779b97f4a7c15ULL) >> 56];
  if (known.key != key) known = {key, ClassFor(note)};
  return known.c;
}

// Of all turns and pauses: of one without a note they are not known.
ReturnClass EntryScores::PlainClass(std::uint32_t use_level) {
  std::optional<ReturnClass>& known = plain_classes_.at(use_level);
  if (!known) known = table_.Under(table_.Under(ReturnTable::kAll, kSaidNothing), use_level);
  return *known;
}

ReturnClass EntryScores::ClassFor(const Note& note) {
  const std::uint32_t uses = UseLevel(note.uses);
  if (IsOver(note)) {
    const std::size_t before = table_.classes();
    const ReturnClass done = table_.Under(
        ReturnTable::kAll, note.hint == kSaidDone ? ReturnTable::kDoneKey : kSupersededKey);
    if (table_.classes() != before) table_.Doubt(done, kDoneDoubts, kDoneForS);
    return table_.Under(done, uses);
  }
  const std::uint32_t said = note.state * std::uint32_t{kHintLevels} + note.hint;
  ReturnClass c = table_.Under(ReturnTable::kAll, said);
  c = table_.Under(c, uses);
  c = table_.Under(c, note.turn);
  return table_.Under(c, note.pause);
}

double EntryScores::Rate(const Note& note, double age_s) {
  return table_.Worth(note.c, age_s, now_);
}

// --- waiting ---

void EntryScores::StartWait(Note* note) {
  const double age = AgeOf(*note);
  note->bin = static_cast<std::uint8_t>(AgeBin(age));
  // Who begins to count late did not wait here before.
  note->entered = note->bin == 0 ? note->since : std::max(now_, note->since);
  table_.Enter(note->c, note->bin, 1, note->entered);
  note->waits = true;
}

void EntryScores::StopWait(Note* note) {
  if (!note->waits) return;
  note->waits = false;
  table_.Leave(note->c, note->bin, 1, note->entered, std::max(now_, note->entered));
}

void EntryScores::Requeue(NoteId id) {
  Note& note = notes_[id];
  const std::size_t step = StepOf(AgeOf(note));
  queues_[step].push_back({id, note.queued + 1});
  ++note.queued;
  note.aging = true;
  note.step = static_cast<std::uint8_t>(step);
}

void EntryScores::PlaceInLines(NoteId id) {
  for (std::size_t line = 0; line < kLinesMax; ++line) {
    const unsigned bit = 1U << line;
    if ((notes_[id].lines & bit) == 0) continue;
    try {
      lines_[line]->Place(id);
    } catch (const std::bad_alloc&) {
      notes_[id].lines = static_cast<std::uint8_t>(notes_[id].lines & ~bit);
      lacks_somebody_ = true;
    }
  }
}

// After what is known of it has changed, and it does not wait.
void EntryScores::Settle(NoteId id) {
  Note& note = notes_[id];
  note.c = ClassOf(note);
  Requeue(id);
  if (note.children == 0 || note.ends) StartWait(&note);
  PlaceInLines(id);
}

void EntryScores::Reclass(NoteId id) {
  Note& note = notes_[id];
  const ReturnClass c = ClassOf(note);
  if (c == note.c) return;
  const bool waited = note.waits;
  StopWait(&note);
  note.c = c;
  if (waited) StartWait(&note);
  PlaceInLines(id);
}

// --- uses ---

// Whether it was there when it was used at `at`, and would have been by last use.
void EntryScores::Observe(const Note& note, double at) {
  if (!note.was_up) return;
  const std::optional<bool> held = window_.Held(note.window_at, at);
  if (!held) return;
  const auto weight = static_cast<std::size_t>(std::max<Bytes>(note.bytes / kKiB, 1));
  guard_.Observe(now_, weight, note.up ? weight : 0, *held ? weight : 0, 0);
}

void EntryScores::Used(NoteId id, std::uint32_t uses, double last) {
  Note& note = notes_[id];
  last = std::max(last, note.since);
  const double gap = (last - note.since) / uses;
  MoveInWindow(id, last);
  if (note.waits) {
    note.waits = false;
    if (note.hint == kSaidDone && last > note.told_at) done_back_ += 1;
    if (note.hint == kSuperseded) NotSuperseded(note);
    table_.ReturnAfter(note.c, note.bin, 1, note.entered, note.since, gap);
    if (uses > 1) table_.WholeWait(note.c, std::min(uses - 1, kUsesAtOnce), gap);
  }
  note.uses += std::min(uses, ~std::uint32_t{0} - note.uses);
  // Of what many continue nobody's turn is its own.
  note.turn = static_cast<std::uint8_t>(
      note.shared ? 0 : std::min(note.turn + std::min(uses, kTurnsTold), kTurnsTold));
  note.pause = static_cast<std::uint8_t>(note.shared ? 0 : PauseLevel(gap));
  // A word is for one wait: uses before it may be found after it.
  if (last > note.told_at) note.hint = kSaidNothing;
  note.since = last;
  note.turn_at = last;
  Settle(id);
}

// Who uses it uses what it continues.
void EntryScores::MoveInWindow(NoteId id, double at) {
  while (id != kNoNote && notes_[id].window_at < at) {
    Note& note = notes_[id];
    Observe(note, at);
    window_.Move(note.window_at, at, note.bytes);
    note.window_at = at;
    id = note.here ? Find(note.parent) : kNoNote;
  }
}

bool EntryScores::Look(NoteId id, const Facts& facts) {
  Note& note = notes_[id];
  const std::uint32_t uses = static_cast<std::uint32_t>(facts.access_count) - note.seen;
  if (uses == 0) return false;
  note.seen += uses;
  Used(id, uses, SecondsOf(facts.last_use));
  return true;
}

void EntryScores::Missed(std::uint64_t hash, TimePoint at) {
  const NoteId id = gone_.Find(hash);
  if (id == kNoNote) return;
  ++ghost_hits_;
  notes_[id].missed = true;
  Used(id, 1, std::min(SecondsOf(at), now_));
}

// --- lines ---

bool EntryScores::Join(EntryId id, const Facts& facts, std::uint8_t line, bool top) {
  try {
    NoteId found = Find(id);
    if (found == kNoNote) {  // It came without a word.
      found = Enlist({.id = id, .hash = 0, .parent = {}}, kNoNote, facts);
      notes_[found].since = std::min(SecondsOf(facts.last_use), now_);
      Settle(found);
    }
    Note& note = notes_[found];
    if (top && !note.up) {
      Look(found, facts);
      note.up = note.was_up = true;
    }
    const auto bit = static_cast<std::uint8_t>(1U << line);
    if ((note.lines & bit) != 0) return true;
    if (!note.aging) Requeue(found);
    note.lines = static_cast<std::uint8_t>(note.lines | bit);
    try {
      lines_[line]->Place(found);
    } catch (const std::bad_alloc&) {
      note.lines = static_cast<std::uint8_t>(note.lines & ~bit);
      return false;
    }
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void EntryScores::Leave(EntryId id, std::uint8_t line) {
  const NoteId found = Find(id);
  if (found == kNoNote) return;
  notes_[found].lines = static_cast<std::uint8_t>(notes_[found].lines & ~(1U << line));
}

}  // namespace spillway
