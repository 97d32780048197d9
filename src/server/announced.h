// SPDX-License-Identifier: Apache-2.0
// Announced keeps entries whose presence a client was just told of. LMCache's native client waits
// for ever when a GET that follows its EXISTS finds nothing (it expects as many bytes as the header
// of a hit has), so eviction between the two would cost it a worker.
//
// A kept entry is leased: it stays in memory, and its tier can't evict it. Only what memory holds
// is kept; what is on disk alone is not read for this. Under State::commands.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

#include "cache/direct.h"
#include "spillway/cache.h"

namespace spillway::server {

class Announced {
 public:
  // From the last EXISTS on. LMCache's GET follows within its batch.
  static constexpr Duration kFor = std::chrono::seconds(5);
  // Of the host tier, or of the only tier in memory: at most a twentieth is kept.
  static constexpr Bytes kShare = 20;

  Announced(Cache* cache, Direct* direct) : cache_(cache), direct_(direct) {}

  // EXISTS said yes for `key`, a key of the cache. Not in EMERGENCY, and not beyond the share.
  void Keep(std::string_view key);

  // Releases what has been kept for long enough; in EMERGENCY, all of it. Call it every 100 ms.
  void Release();

  Bytes bytes() const { return bytes_; }

 private:
  struct Kept {
    Lease lease;
    TimePoint until;
  };
  struct Turn {
    TimePoint until;
    std::string key;
  };

  void Drop(std::unordered_map<std::string, Kept>::iterator at);

  Cache* const cache_;
  Direct* const direct_;
  Bytes most_ = 0;  // Read from the cache when it is first needed.
  Bytes bytes_ = 0;
  std::unordered_map<std::string, Kept> kept_;
  std::deque<Turn> turns_;  // Oldest first; an entry announced again has a later one as well.
};

}  // namespace spillway::server
