// SPDX-License-Identifier: Apache-2.0
#include "policy/recency_window.h"

#include <algorithm>

namespace spillway {

RecencyWindow::Stretch* RecencyWindow::Find(double at) {
  // Usually it is the latest.
  if (!stretches_.empty() && at >= stretches_.back().from) return &stretches_.back();
  const auto after = std::ranges::upper_bound(stretches_, at, {}, &Stretch::from);
  return after == stretches_.begin() ? nullptr : &*(after - 1);
}

void RecencyWindow::Add(double at, Bytes bytes) {
  const bool empty = stretches_.empty();
  if (empty || (at > stretches_.back().from && (stretches_.back().bytes >= capacity_ / kParts ||
                                                at - stretches_.back().from >= kLongestS))) {
    stretches_.push_back({at, held_from_, 0});
  }
  // A use older than all stretches counts in the oldest.
  Stretch* const stretch = at < stretches_.front().from ? &stretches_.front() : Find(at);
  stretch->bytes += bytes;
  total_ += bytes;
  Trim();
}

void RecencyWindow::Remove(double since, Bytes bytes) {
  Stretch* const stretch = Find(since);
  if (stretch == nullptr) return;
  const Bytes gone = std::min(stretch->bytes, bytes);
  stretch->bytes -= gone;
  total_ -= gone;
}

void RecencyWindow::Move(double since, double at, Bytes bytes) {
  Remove(since, bytes);
  Add(at, bytes);
}

void RecencyWindow::Trim() {
  while (stretches_.size() > 1 && (total_ > capacity_ || stretches_.size() > kStretchesMax)) {
    total_ -= stretches_.front().bytes;
    stretches_.pop_front();
    held_from_ = stretches_.front().from;
  }
}

std::optional<bool> RecencyWindow::Held(double since, double at) const {
  const auto after = std::ranges::upper_bound(stretches_, at, {}, &Stretch::from);
  if (after == stretches_.begin()) return std::nullopt;
  // The moment stored with the next stretch: within a stretch it can only have risen.
  return since >= (after == stretches_.end() ? held_from_ : after->held_from);
}

}  // namespace spillway
