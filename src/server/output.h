// Replies on their way to one client: text, and values that are sent from where
// they lie, under a lease, without a copy. Owned by one connection.
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
  // Text that is written next goes here; only append.
  std::string& text() { return tail_; }
  // The value follows what was written so far, and what is written next follows
  // the value.
  void Attach(Lease lease);

  bool empty() const { return parts_.empty() && tail_.size() == tail_sent_; }
  // Bytes held for it, leased values aside; and the leased ones.
  std::size_t held() const { return parts_text_ + tail_.size(); }
  std::uint64_t leased() const { return leased_; }

  // Up to `most` pieces of what is to be sent.
  std::size_t Pieces(iovec* pieces, std::size_t most) const;
  // So many bytes of them have been.
  void Sent(std::size_t bytes);

  // Where the reply to a command begins, so that it can be taken back.
  struct Mark {
    std::size_t parts = 0;
    std::size_t text = 0;
  };
  Mark mark() const { return {parts_.size(), tail_.size()}; }
  void TakeBack(const Mark& mark);
  void Clear();

 private:
  struct Part {
    std::string text;
    Lease value;
    std::size_t size() const { return text.size() + value.size(); }
  };
  static constexpr std::size_t kKeptBytes = 64 * 1024;

  std::deque<Part> parts_;
  std::size_t part_sent_ = 0;  // Of the first part.
  std::size_t parts_text_ = 0;
  std::uint64_t leased_ = 0;
  std::string tail_;
  std::size_t tail_sent_ = 0;
};

}  // namespace spillway::server
