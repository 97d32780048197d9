// A cache by last use, without bytes: what it would hold of the very blocks that
// were asked for, in memory of a size that changes as ours does. What does not
// fit any more is gone, least recently used first.
#pragma once

#include <cstddef>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>

#include "spillway/units.h"

namespace spillway::demo {

// One thread at a time.
class LruShadow {
 public:
  void SetCapacity(Bytes capacity);
  // It was read or set.
  void Touch(std::string_view key, Bytes bytes);
  void Forget(std::string_view key);

  bool Holds(std::string_view key) const { return where_.contains(std::string(key)); }
  Bytes bytes() const { return bytes_; }

 private:
  struct Entry {
    std::string key;
    Bytes bytes;
  };
  void Shrink();

  Bytes capacity_ = 0;
  Bytes bytes_ = 0;
  std::list<Entry> entries_;  // Last used first.
  std::unordered_map<std::string, std::list<Entry>::iterator> where_;
};

}  // namespace spillway::demo
