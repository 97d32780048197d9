// Time goes on: who has passed a step of age is looked at, a part at a time. And
// what clients say of the time to come.
#include <algorithm>
#include <new>

#include "policy/entry_scores.h"

namespace spillway {
namespace {
constexpr double kDonesWeighed = 512;
// How often those who passed a step are looked for.
constexpr double kLookEveryS = 0.1;
constexpr std::size_t kPassingAhead = 8;
constexpr std::size_t kMany = std::size_t{1} << 17;

std::uint8_t HintLevel(Hint hint, std::optional<Duration> eta) {
  if (hint == Hint::kNone) return kSaidNothing;
  if (hint == Hint::kDone) return kSaidDone;
  if (!eta) return kSaidAgain;
  constexpr double kBounds[] = {2, 10, 60, 300, 1800};
  const double seconds = std::chrono::duration<double>(*eta).count();
  const auto level = std::ranges::upper_bound(kBounds, seconds) - kBounds;
  return static_cast<std::uint8_t>(kSaidAgain + 1 + level);
}

}  // namespace

void EntryScores::Declare(EntryId id, double recompute_s, Tokens tokens) {
  const NoteId found = Find(id);
  if (found == kNoNote || !(recompute_s > 0)) return;
  notes_[found].recompute_s = static_cast<float>(recompute_s);
  if (tokens > 0) prefill_s_ += (recompute_s / static_cast<double>(tokens) - prefill_s_) / 16;
  PlaceInLines(found);
}

void EntryScores::Tell(EntryId id, Hint hint, std::optional<Duration> eta, std::string_view step) {
  const NoteId found = Find(id);
  if (found == kNoNote) return;
  Facts facts;
  if (reader_->Read(id, &facts)) Look(found, facts);
  std::uint16_t state = notes_[found].state;
  if (!step.empty()) {
    auto at = std::ranges::find(states_, step);
    if (at == states_.end() && states_.size() < kStatesMax) {
      states_.emplace_back(step);
      at = states_.end() - 1;
    }
    state = static_cast<std::uint16_t>(at == states_.end() ? 0 : at - states_.begin() + 1);
  }
  if (hint == Hint::kDone && notes_[found].hint != kSaidDone && (done_said_ += 1) > kDonesWeighed) {
    done_said_ /= 2;
    done_back_ /= 2;
  }
  // It holds for all of the chain; of what several continue only the state.
  const std::uint8_t level = HintLevel(hint, eta);
  bool own = true;
  for (NoteId at = found; at != kNoNote; at = Find(notes_[at].parent)) {
    Note& note = notes_[at];
    own = own && !note.shared;
    note.state = state;
    if (own && hint != Hint::kNone) {
      note.hint = level;
      note.told_at = now_;
    }
    if (note.waits) Reclass(at);
  }
}

// Those of one class that pass a step one after another, counted together.
struct EntryScores::Passing {
  ReturnClass c = 0;
  double weight = 0;
  double entered = 0;
  double since = 0;
};

void EntryScores::CountPassing(std::size_t step, std::size_t to, Passing* passing) {
  if (passing->weight > 0) {
    table_.Pass(passing->c, FirstBin(step), FirstBin(to), passing->weight, passing->entered,
                passing->since);
  }
  *passing = Passing();
}

// False: there is more to look at.
bool EntryScores::PassStep(std::size_t step, std::size_t* looks) {
  auto& queue = queues_[step];
  // Where there are many, each is looked at half as often.
  const std::size_t stride = notes_.size() < kMany ? 1 : step == 0 ? 3 : 2;
  const std::size_t to = std::min(step + stride, kSteps - 1);
  const double passes = AgeEdges()[FirstBin(to)];
  Passing passing;
  while (!queue.empty()) {
    const Queued first = queue.front();
    Note& note = notes_[first.note];
    if (note.queued == first.queued) {
      if (AgeOf(note) < passes) break;
      if (*looks == 0) {
        CountPassing(step, to, &passing);
        return false;
      }
      --*looks;
      if (queue.size() > kPassingAhead) {
        notes_.Prefetch(queue[kPassingAhead].note);
        reader_->Prefetch(notes_[queue[kPassingAhead / 2].note].id);
      }
      Facts facts;
      const bool used = note.here && reader_->Read(note.id, &facts) && Look(first.note, facts);
      if (!used && (note.waits || note.lines != 0)) {
        queues_[to].push_back(first);
        note.step = static_cast<std::uint8_t>(to);
        PlaceInLines(first.note);
        if (note.waits && note.bin == FirstBin(step)) {
          if (passing.c != note.c) CountPassing(step, to, &passing);
          passing.c = note.c;
          passing.weight += 1;
          passing.entered += note.entered;
          passing.since += note.since;
        } else if (note.waits && note.bin < FirstBin(to)) {
          table_.Pass(note.c, note.bin, FirstBin(to), 1, note.entered, note.since);
        }
        if (note.waits && note.bin < FirstBin(to)) {
          note.bin = static_cast<std::uint8_t>(FirstBin(to));
          note.entered = note.since + AgeEdges()[note.bin];
        }
      } else if (!used) {
        note.aging = false;
      }
    }
    queue.pop_front();
  }
  CountPassing(step, to, &passing);
  return true;
}

void EntryScores::Advance(TimePoint now, Bytes held) {
  if (!epoch_) epoch_ = now;
  now_ = std::max(now_, SecondsOf(now));
  if (!behind_ && now_ < looked_ + kLookEveryS) return;
  looked_ = now_;
  window_.SetCapacity(HeldByNoted(held));
  std::size_t looks = kLooksMax;
  behind_ = false;
  try {
    for (std::size_t step = 0; step + 1 < kSteps && !behind_; ++step) {
      behind_ = !PassStep(step, &looks);
    }
  } catch (const std::bad_alloc&) {
    behind_ = true;  // Another time.
  }
}

}  // namespace spillway
