// SPDX-License-Identifier: Apache-2.0
#include "http/feed.h"

#include <algorithm>
#include <chrono>
#include <new>

#include "base/times.h"

namespace spillway::http {

Feed::Item& Feed::Next() {
  Item& item = items_[++latest_ % kKept];
  item.number = latest_;
  item.unix_ms = UnixMs();
  return item;
}

// Without memory for its strings, an item is kept without them.
void Feed::OnEvent(const Event& event) try {
  if (event.reason == Reason::kReplaced) return;
  const MutexLock lock(mutex_);
  Item& item = Next();
  item.is_level = false;
  item.key.assign(event.key.substr(0, kKeyMax));
  item.key_bytes = event.key.size();
  item.action = event.action;
  item.reason = event.reason;
  item.level = event.level;
  item.order.assign(event.order);
  item.tier.assign(event.tier);
  item.bytes = event.bytes;
  item.tokens = event.tokens;
} catch (const std::bad_alloc&) {
}

void Feed::OnEvent(const LevelChange& change) try {
  const MutexLock lock(mutex_);
  Item& item = Next();
  item.is_level = true;
  item.key.clear();
  item.key_bytes = 0;
  item.level = change.to;
  item.from = change.from;
  item.pressure = change.pressure;
  item.tier.assign(change.tier);
} catch (const std::bad_alloc&) {
}

std::uint64_t Feed::latest() const {
  const MutexLock lock(mutex_);
  return latest_;
}

std::vector<Feed::Item> Feed::After(std::uint64_t number, std::size_t most,
                                    std::uint64_t* passed) const {
  const MutexLock lock(mutex_);
  // The number is from an earlier process: all events are new.
  if (number > latest_) number = 0;
  const std::uint64_t news = latest_ - number;
  const std::uint64_t count = std::min<std::uint64_t>({news, most, kKept});
  *passed = news - count;
  std::vector<Item> items;
  items.reserve(count);
  for (std::uint64_t n = latest_ - count + 1; n <= latest_; ++n) items.push_back(items_[n % kKept]);
  return items;
}

}  // namespace spillway::http
