// SPDX-License-Identifier: Apache-2.0
// The replies pending for one client: text, and values that are sent from the cache's memory under
// a lease, without a copy. Owned by one connection.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "spillway/cache.h"

namespace spillway::server {

class Output {
 public:
  // The text written next. Callers may only append.
  std::string& text() { return tail_; }
  // Adds the value, or `bytes` of it from offset `from`, behind the text written so far.
  void Attach(Lease lease) { Attach(std::move(lease), 0, SIZE_MAX); }
  void Attach(Lease lease, std::size_t from, std::size_t bytes);

  bool empty() const { return parts_.empty() && tail_.size() == tail_sent_; }
  // Memory of the replies without leased values; and the bytes of leased values.
  std::size_t held() const { return parts_text_ + parts_.size() * sizeof(Part) + tail_.size(); }
  std::uint64_t leased() const { return leased_; }
  // Whether the client must read replies before more of its requests run.
  bool over() const { return held() > kHeldMark || leased_ > kLeasedMark; }

  // Up to `most` pieces to send next, for writev.
  std::size_t Pieces(iovec* pieces, std::size_t most) const;
  // Removes the first `bytes`, which were sent.
  void Sent(std::size_t bytes);

  // The position where the reply to a command begins, so that it can be removed again.
  struct Mark {
    std::size_t parts = 0;
    std::size_t unsent = 0;  // Of the text: Attach drops what was sent of it.
  };
  Mark mark() const { return {parts_.size(), tail_.size() - tail_sent_}; }
  void TakeBack(const Mark& mark);
  void Clear();
  // So many bytes have been cleared in all, and sent to nobody.
  std::uint64_t cleared() const { return cleared_; }

 private:
  static constexpr std::size_t kHeldMark = kMiB;
  static constexpr std::uint64_t kLeasedMark = 64 * kMiB;
  struct Part {
    std::string text;
    Lease lease;
    std::string_view value;  // Of the lease.
    std::size_t size() const { return text.size() + value.size(); }
  };
  static constexpr std::size_t kKeptBytes = 64 * 1024;

  std::deque<Part> parts_;
  std::size_t part_sent_ = 0;  // Of the first part.
  std::size_t parts_text_ = 0;
  std::uint64_t leased_ = 0;
  std::uint64_t cleared_ = 0;
  std::string tail_;
  std::size_t tail_sent_ = 0;
};

}  // namespace spillway::server
