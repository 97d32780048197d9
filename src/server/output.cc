// SPDX-License-Identifier: Apache-2.0
#include "server/output.h"

#include <algorithm>
#include <utility>

namespace spillway::server {

void Output::Attach(Lease lease, std::size_t from, std::size_t bytes) {
  Part part;
  part.text = std::exchange(tail_, {});
  if (tail_sent_ > 0) part.text.erase(0, std::exchange(tail_sent_, 0));
  part.value = lease.text().substr(from, bytes);
  part.lease = std::move(lease);
  parts_text_ += part.text.size();
  leased_ += part.value.size();
  parts_.push_back(std::move(part));
}

std::size_t Output::Pieces(iovec* pieces, std::size_t most) const {
  std::size_t count = 0;
  const auto add = [&](const void* from, std::size_t bytes) {
    if (bytes == 0 || count == most) return;
    pieces[count++] = {const_cast<void*>(from), bytes};  // writev only reads it.
  };
  std::size_t skip = part_sent_;
  for (const Part& part : parts_) {
    if (count == most) return count;
    const std::size_t of_text = std::min(skip, part.text.size());
    add(part.text.data() + of_text, part.text.size() - of_text);
    const std::size_t of_value = skip - of_text;
    add(part.value.data() + of_value, part.value.size() - of_value);
    skip = 0;
  }
  add(tail_.data() + tail_sent_, tail_.size() - tail_sent_);
  return count;
}

void Output::Sent(std::size_t bytes) {
  while (!parts_.empty()) {
    const std::size_t left = parts_.front().size() - part_sent_;
    if (bytes < left) {
      part_sent_ += bytes;
      return;
    }
    bytes -= left;
    part_sent_ = 0;
    parts_text_ -= parts_.front().text.size();
    leased_ -= parts_.front().value.size();
    parts_.pop_front();
  }
  tail_sent_ += bytes;
  if (tail_sent_ < tail_.size()) return;
  tail_sent_ = 0;
  if (tail_.capacity() > kKeptBytes) {
    tail_ = {};
  } else {
    tail_.clear();
  }
}

// Nothing is sent while a command runs, so its whole reply is still here.
void Output::TakeBack(const Mark& mark) {
  if (parts_.size() > mark.parts) {
    tail_ = std::move(parts_[mark.parts].text);
    while (parts_.size() > mark.parts) {
      leased_ -= parts_.back().value.size();
      parts_.pop_back();
    }
    parts_text_ = 0;
    for (const Part& part : parts_) parts_text_ += part.text.size();
  }
  if (tail_.size() - tail_sent_ > mark.unsent) tail_.resize(tail_sent_ + mark.unsent);
}

void Output::Clear() {
  for (const Part& part : parts_) cleared_ += part.size();
  cleared_ += tail_.size() - tail_sent_;
  cleared_ -= part_sent_;
  parts_.clear();
  part_sent_ = parts_text_ = 0;
  leased_ = 0;
  tail_ = {};
  tail_sent_ = 0;
}

}  // namespace spillway::server
