// SPDX-License-Identifier: Apache-2.0
#include "replay/order/block_cache.h"

#include <algorithm>

namespace spillway {

bool BlockSet::Fit(std::span<const BlockId> chain) {
  if (chain.empty()) return false;
  const std::size_t most = std::size_t{*std::ranges::max_element(chain)} + 1;
  if (most <= there_.size()) return false;
  there_.resize(std::max(most, there_.size() * 2));
  return true;
}

std::size_t BlockSet::LeadingRun(std::span<const BlockId> chain) const {
  std::size_t run = 0;
  while (run < chain.size() && Holds(chain[run])) ++run;
  return run;
}

std::size_t RankedBlockCache::Serve(const Visit& visit) {
  if (set_.Fit(visit.chain)) Grow(set_.blocks());
  const std::size_t run = set_.LeadingRun(visit.chain);
  Begin(visit);
  // From here on, blocks before `reached` are in the cache; those after it may be.
  std::vector<std::uint8_t> was(visit.chain.size());
  for (std::size_t i = 0; i < visit.chain.size(); ++i) {
    was[i] = set_.Holds(visit.chain[i]) ? 1 : 0;
    if (was[i] != 0) Pin(visit.chain[i]);
  }
  std::size_t refused_from = visit.chain.size();
  for (std::size_t i = 0; i < visit.chain.size(); ++i) {
    if (was[i] != 0) continue;
    if (set_.full()) {
      const BlockId victim = set_.capacity() == 0 ? kNoBlock : Victim(visit.chain[i]);
      if (victim == kNoBlock) {
        refused_from = i;
        break;
      }
      set_.Remove(victim);
    }
    set_.Add(visit.chain[i]);
  }
  for (std::size_t i = visit.chain.size(); i-- > 0;) {
    if (was[i] != 0 || i < refused_from) Used(visit.chain[i], was[i] == 0);
  }
  return run;
}

}  // namespace spillway
