// The learnt score over a cache's entries: how soon each is likely to be used
// again, by what such ones did before. One for all lines of all tiers; each line
// ranks by it (ScoreOrder). It holds no bytes and has no clock; it is plain LRU
// until it has seen enough, and while the guard says so.
//
// A hit tells nobody. Each entry is looked at when its age passes a step, two to
// an octave, and before it leaves; uses found then are noted with their times, so
// what is learnt is late by no more than that and otherwise right.
//
// Of a chain only the last entry here waits in the table, so a long chain counts
// once. When that one leaves, the one before waits in its place, and knows what
// was known of it; unless several continued it: then each waits for itself.
//
// Its class: what a client said (done, again, when) and what it waits for; how
// often it was used; the turn of the conversation; the pause before this turn.
//
// Notes outlive the bytes, `history_max` of them at most, longest gone forgotten
// first. Small entries of which nothing is known but how often they were used have
// none, but for one in 64, from whom is learnt what becomes of all (PlainQueues).
// Called on the engine's strand.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policy/entry_notes.h"
#include "policy/facts.h"
#include "policy/guard.h"
#include "policy/recency_window.h"
#include "policy/return_table.h"
#include "spillway/options.h"

namespace spillway {

// A line that ranks by the score.
class ScoredLine {
 public:
  virtual ~ScoredLine() = default;
  // `note` belongs into another place from now on. Throws bad_alloc.
  virtual void Place(NoteId note) = 0;
};

class EntryScores {
 public:
  // `reader` shows any live entry, its children wherever they are; their slots are
  // below `entries_max`.
  EntryScores(const FactReader* reader, std::size_t history_max, std::size_t entries_max = 65'536)
      : reader_(reader),
        history_max_(history_max),
        notes_(entries_max + history_max + 16),
        gone_(&notes_),
        by_slot_(entries_max) {}

  struct Newcomer {
    EntryId id;
    std::uint64_t hash = 0;
    EntryId parent{};  // Live, or none.
  };
  // Those that may throw bad_alloc do so before they change anything that counts;
  // what they were told is lost.
  // `held`: what the top tier holds with it.
  void Welcome(const Newcomer& who, const Facts& facts, Bytes held, TimePoint now);
  // Whether one of these facts, without names and parent, is let in without a note.
  static bool GoesWithout(const Facts& facts, std::uint64_t hash) {
    return LooksPlain(facts) && !InSample(hash);
  }
  static bool InSample(std::uint64_t hash) { return (hash >> 32) % kNotedOneOf == 0; }
  static bool LooksPlain(const Facts& facts) {
    return facts.tokens == 0 && facts.bytes <= kPlainBytesMost;
  }
  // One that is let in so comes, or goes.
  void PlainCame(Bytes bytes) { plain_bytes_ += bytes; }
  void PlainGone(Bytes bytes) { plain_bytes_ -= std::min(plain_bytes_, bytes); }
  // What a client says of the next use; `step` names what it waits for.
  void Tell(EntryId id, Hint hint, std::optional<Duration> eta, std::string_view step);
  // What it would cost to compute it anew.
  void Declare(EntryId id, double recompute_s, Tokens tokens);
  // It leaves the cache. `for_good`: nobody need remember it. Never throws.
  void Gone(EntryId id, const Facts& facts, bool for_good, TimePoint now);
  // It has left the top tier and is below.
  void WentDown(EntryId id, const Facts& facts);
  // Somebody asked for a key that is not here.
  void Missed(std::uint64_t hash, TimePoint at);
  // A key of that hash may come soon.
  void Expect(std::uint64_t hash) const { gone_.Prefetch(hash); }
  // Time goes on: a part of those who passed a step are looked at.
  void Advance(TimePoint now, Bytes held);

  // --- for lines ---

  void Register(std::uint8_t line, ScoredLine* order) { lines_[line] = order; }
  // Stands in that line from now on. False: there is no memory for it.
  bool Join(EntryId id, const Facts& facts, std::uint8_t line, bool top);
  void Leave(EntryId id, std::uint8_t line);
  // Notes what it did since the last look. True: it was used, and stands
  // elsewhere now.
  bool Look(NoteId note, const Facts& facts);
  NoteId Find(EntryId id) const;
  Note& note(NoteId id) { return notes_[id]; }
  const Note& note(NoteId id) const { return notes_[id]; }
  void Prefetch(NoteId id) const { notes_.Prefetch(id); }
  // Of an entry: first where its note is, then that.
  void PrefetchPlace(EntryId id) const {
    if (id.slot < by_slot_.size()) __builtin_prefetch(&by_slot_[id.slot]);
  }
  void PrefetchNote(EntryId id) const {
    if (id.slot < by_slot_.size() && by_slot_[id.slot] != 0) {
      notes_.Prefetch(by_slot_[id.slot] - 1);
    }
  }
  // Returns a second of place held, for one of its class and this age.
  double Rate(const Note& note, double age_s);
  // The same for one without a note.
  double PlainRate(std::uint32_t use_level, double age_s) {
    return table_.Worth(PlainClass(use_level), age_s, now_);
  }
  double now_s() const { return now_; }
  double AgeOf(const Note& note) const { return now_ > note.since ? now_ - note.since : 0; }
  double SecondsOf(TimePoint at) const;
  static bool IsOver(const Note& note) {
    return note.hint == kSaidDone || note.hint == kSuperseded;
  }
  // One of the last few that were set: its request may be at work on the next.
  static bool IsFresh(const Note& note, double age_s) {
    return note.open && age_s < kFreshS && !IsOver(note);
  }

  // Ranks by last use: nothing is known yet, or the guard says so.
  bool by_recency() const { return !knows() || guard_.leader() != Leader::kScore; }
  bool knows() const { return table_.returns() >= kReturnsLeast; }
  // Of those said to be done few came back.
  bool believes_done() const { return done_back_ * 5 < done_said_ + 10; }
  // Who makes room only if nobody else can: what a newcomer continues.
  void Spare(EntryId id) { spared_ = id; }
  EntryId spared() const { return spared_; }

  // What a newcomer of this kind would be worth at once: uses a second.
  double RateOfNewcomer(const Newcomer& who, TimePoint now);
  // Seconds to compute a token anew, as far as entries declare it.
  double prefill_s() const { return prefill_s_; }

  // Whether somebody lost a place in a line for want of memory: all enter again.
  bool TakeLack() { return std::exchange(lacks_somebody_, false); }

  // --- answers ---

  const Guard& guard() const { return guard_; }
  std::size_t remembered() const { return gone_.size(); }
  std::size_t notes() const { return notes_.size(); }
  double returns() const { return table_.returns(); }
  // Of those who are gone and remembered: how often one was asked for, or set anew.
  std::uint64_t ghost_hits() const { return ghost_hits_; }
  std::string_view StateName(const Note& note) const {
    return note.state == 0 ? std::string_view() : std::string_view(states_[note.state - 1U]);
  }

 private:
  static constexpr double kReturnsLeast = 32;
  static constexpr double kFreshS = 0.25;
  static constexpr std::size_t kOpenMax = 2;
  static constexpr std::size_t kSteps = 37;
  static constexpr std::size_t kStatesMax = 64;
  static constexpr std::size_t kLooksMax = 256;  // In one Advance.
  static constexpr Bytes kPlainBytesMost = 4 * kKiB;
  static constexpr std::uint64_t kNotedOneOf = 64;
  static std::size_t FirstBin(std::size_t step);
  static std::size_t StepOf(double age_s);
  struct Queued {
    NoteId note;
    std::uint32_t queued;
  };
  struct Departed {
    NoteId note;
    std::uint32_t life;
  };
  struct Passing;

  ReturnClass PlainClass(std::uint32_t use_level);
  // What those with notes may hold of that.
  Bytes HeldByNoted(Bytes held) const { return held - std::min(held, plain_bytes_); }
  ReturnClass ClassOf(const Note& note);
  ReturnClass ClassFor(const Note& note);
  void Reclass(NoteId id);
  // It was used `uses` times, the last time at `last`.
  void Used(NoteId id, std::uint32_t uses, double last);
  void MoveInWindow(NoteId id, double at);
  void Observe(const Note& note, double at);
  void StartWait(Note* note);
  void StopWait(Note* note);
  void Requeue(NoteId id);
  void Settle(NoteId id);  // Class, wait, queue and lines after a change.
  void PlaceInLines(NoteId id);
  void Continue(NoteId parent, const Newcomer& by, NoteId note);
  NoteId EndOf(NoteId id) const;
  bool Supersede(NoteId parent, std::uint64_t by);
  void NotSuperseded(const Note& note);
  void Inherit(NoteId parent, NoteId child);
  void Open(NoteId id, NoteId parent);
  void TurnFor(Note* note, const Note* parent) const;
  // `remembered`: its note, if it was here before.
  NoteId Enlist(const Newcomer& who, NoteId remembered, const Facts& facts);
  void Drop(NoteId id);
  void ForgetOldest();
  bool PassStep(std::size_t step, std::size_t* looks);
  void CountPassing(std::size_t step, std::size_t to, Passing* passing);

  const FactReader* const reader_;
  const std::size_t history_max_;
  ReturnTable table_;
  NotePool notes_;
  GoneTable gone_;
  ZeroedTable<std::uint32_t> by_slot_;  // More by one; 0: none.
  std::array<std::deque<Queued>, kSteps> queues_;
  std::deque<Departed> departed_;
  std::array<NoteId, kOpenMax> open_{kNoNote, kNoNote};
  std::size_t open_at_ = 0;
  std::array<ScoredLine*, kLinesMax> lines_{};
  std::vector<std::string> states_;
  // Classes of those met lately, by what makes them.
  struct KnownClass {
    std::uint64_t key = ~std::uint64_t{0};
    ReturnClass c = 0;
  };
  std::array<KnownClass, 256> known_classes_;
  std::array<std::optional<ReturnClass>, 8> plain_classes_;
  Bytes plain_bytes_ = 0;  // Of those without notes.
  EntryId spared_{};
  // The recent weigh more.
  double done_said_ = 0;
  double done_back_ = 0;
  double prefill_s_ = 43e-6;  // An 8B model on an H200: 32 K tokens in 1.4 s.
  std::uint64_t ghost_hits_ = 0;
  double now_ = 0;
  double looked_ = -1;
  bool behind_ = false;
  bool lacks_somebody_ = false;
  std::optional<TimePoint> epoch_;
  RecencyWindow window_;
  Guard guard_;
};

}  // namespace spillway
