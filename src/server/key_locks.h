// SPDX-License-Identifier: Apache-2.0
// Keys that a waiting command holds. A write that has to wait (for room, for the
// disk) has read and decided already: were another client's write to come between,
// SET NX would overwrite it and GETSET would lose it. So a command that waits holds
// its keys until it is done, and other commands on them wait their turn.
//
// Commands that do not wait hold nothing and cost one look at an empty map.
// Used under the lock for commands. A holder never waits for another holder: all
// keys a command may touch are free before it begins, and are taken at once.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

namespace spillway::server {

class KeyLocks {
 public:
  bool empty() const { return held_.empty(); }

  // Whether `client` may read the key (or write it) now.
  bool IsFree(std::uint64_t client, std::string_view key, bool write) const {
    const auto it = held_.find(key);
    return it == held_.end() || it->second.client == client || (!write && !it->second.from_readers);
  }

  // `from_readers`: of several keys, or of a transaction, no state in between is
  // shown. Keys that are held already stay with their holder.
  void Hold(std::uint64_t client, std::span<const std::string> keys, bool from_readers) {
    for (const std::string& key : keys) held_.try_emplace(key, Held{client, from_readers});
  }

  void Release(std::uint64_t client) {
    if (held_.empty()) return;
    std::erase_if(held_, [&](const auto& one) { return one.second.client == client; });
  }

 private:
  struct Held {
    std::uint64_t client = 0;
    bool from_readers = false;
  };
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view key) const {
      return std::hash<std::string_view>()(key);
    }
  };
  std::unordered_map<std::string, Held, Hash, std::equal_to<>> held_;
};

}  // namespace spillway::server
