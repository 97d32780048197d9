// SPDX-License-Identifier: Apache-2.0
// EntryScores: inspects entries that passed an age step, some at a time, and takes clients' hints.
#include <algorithm>
#include <new>

#include "policy/entry_scores.h"

namespace spillway {
namespace {
constexpr double kDonesWeighed = 512;
// How often entries that passed a step are looked for.
constexpr double kLookEveryS = 0.1;
constexpr std::size_t kPrefetchAhead = 8;
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
  const HistoryRecordId found = Find(id);
  if (found == kNoRecord || !(recompute_s > 0)) return;
  records_[found].recompute_s = static_cast<float>(recompute_s);
  if (tokens > 0) prefill_s_ += (recompute_s / static_cast<double>(tokens) - prefill_s_) / 16;
  PlaceInLines(found);
}

void EntryScores::Tell(EntryId id, Hint hint, std::optional<Duration> eta, std::string_view step) {
  const HistoryRecordId found = Find(id);
  if (found == kNoRecord) return;
  Facts facts;
  if (reader_->Read(id, &facts)) Tick(found, facts);
  std::uint16_t state = records_[found].state;
  if (!step.empty()) {
    auto at = std::ranges::find(states_, step);
    if (at == states_.end() && states_.size() < kStatesMax) {
      states_.emplace_back(step);
      at = states_.end() - 1;
    }
    state = static_cast<std::uint16_t>(at == states_.end() ? 0 : at - states_.begin() + 1);
  }
  if (hint == Hint::kDone && records_[found].hint != kSaidDone) {
    done_said_ += 1;
    if (done_said_ > kDonesWeighed) {
      done_said_ /= 2;
      done_back_ /= 2;
    }
  }
  // A hint applies to the whole chain; for entries that several others continue, only the state
  // does.
  const std::uint8_t level = HintLevel(hint, eta);
  bool own = true;
  for (HistoryRecordId at = found; at != kNoRecord; at = Find(records_[at].parent)) {
    HistoryRecord& record = records_[at];
    // Uses before the hint are counted first, so that they are not taken for its result.
    if (record.waits && at != found && reader_->Read(record.id, &facts)) Tick(at, facts);
    own = own && !record.shared;
    record.state = state;
    if (own && hint != Hint::kNone) {
      record.hint = level;
      record.told_at = now_;
    }
    if (record.waits) Reclass(at);
  }
}

// Entries of one class that pass a step one after another, counted together.
struct EntryScores::Streaming {
  ReturnClass c = 0;
  double weight = 0;
  double entered = 0;
  double since = 0;
};

void EntryScores::CountStreaming(std::size_t step, std::size_t to, Streaming* passing) {
  if (passing->weight > 0) {
    table_.Pass(passing->c, FirstBin(step), FirstBin(to), passing->weight, passing->entered,
                passing->since);
  }
  *passing = Streaming();
}

// False: there are more to inspect.
bool EntryScores::PassStep(std::size_t step, std::size_t* looks) {
  auto& queue = queues_[step];
  // With many entries, each is inspected half as often.
  const std::size_t stride = records_.size() < kMany ? 1 : step == 0 ? 3 : 2;
  const std::size_t to = std::min(step + stride, kSteps - 1);
  const double passes = AgeEdges()[FirstBin(to)];
  Streaming passing;
  while (!queue.empty()) {
    const Queued first = queue.front();
    HistoryRecord& record = records_[first.record];
    if (record.queued == first.queued) {
      if (AgeOf(record) < passes) break;
      if (*looks == 0) {
        CountStreaming(step, to, &passing);
        return false;
      }
      --*looks;
      if (queue.size() > kPrefetchAhead) {
        records_.Prefetch(queue[kPrefetchAhead].record);
        reader_->Prefetch(records_[queue[kPrefetchAhead / 2].record].id);
      }
      Facts facts;
      const bool used =
          record.here && reader_->Read(record.id, &facts) && Tick(first.record, facts);
      if (!used && (record.waits || record.queues != 0)) {
        queues_[to].push_back(first);
        record.step = static_cast<std::uint8_t>(to);
        PlaceInLines(first.record);
        if (record.waits && record.bin == FirstBin(step)) {
          if (passing.c != record.c) CountStreaming(step, to, &passing);
          passing.c = record.c;
          passing.weight += 1;
          passing.entered += record.entered;
          passing.since += record.since;
        } else if (record.waits && record.bin < FirstBin(to)) {
          table_.Pass(record.c, record.bin, FirstBin(to), 1, record.entered, record.since);
        }
        if (record.waits && record.bin < FirstBin(to)) {
          record.bin = static_cast<std::uint8_t>(FirstBin(to));
          record.entered = record.since + AgeEdges()[record.bin];
        }
      } else if (!used) {
        record.aging = false;
      }
    }
    queue.pop_front();
  }
  CountStreaming(step, to, &passing);
  return true;
}

void EntryScores::Advance(TimePoint now, Bytes held) {
  if (!epoch_) epoch_ = now;
  now_ = std::max(now_, SecondsOf(now));
  if (!behind_ && now_ < looked_ + kLookEveryS) return;
  looked_ = now_;
  window_.SetCapacity(held);
  std::size_t looks = kLooksMax;
  behind_ = false;
  try {
    for (std::size_t step = 0; step + 1 < kSteps && !behind_; ++step) {
      behind_ = !PassStep(step, &looks);
    }
  } catch (const std::bad_alloc&) {
    behind_ = true;  // Continued by a later call.
  }
}

}  // namespace spillway
