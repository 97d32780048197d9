#include "demo/lru_shadow.h"

namespace spillway::demo {

void LruShadow::SetCapacity(Bytes capacity) {
  capacity_ = capacity;
  Shrink();
}

void LruShadow::Touch(std::string_view key, Bytes bytes) {
  Forget(key);
  entries_.push_front({std::string(key), bytes});
  where_.emplace(entries_.front().key, entries_.begin());
  bytes_ += bytes;
  Shrink();
}

void LruShadow::Forget(std::string_view key) {
  const auto found = where_.find(std::string(key));
  if (found == where_.end()) return;
  bytes_ -= found->second->bytes;
  entries_.erase(found->second);
  where_.erase(found);
}

void LruShadow::Shrink() {
  while (bytes_ > capacity_) {
    bytes_ -= entries_.back().bytes;
    where_.erase(entries_.back().key);
    entries_.pop_back();
  }
}

}  // namespace spillway::demo
