// SPDX-License-Identifier: Apache-2.0
#include "replay/order/lru_lfu.h"

namespace spillway {

std::size_t LruBlocks::Serve(const Visit& visit) {
  const auto chain = visit.chain;
  if (set_.Fit(chain)) links_.Grow(set_.blocks());
  const std::size_t run = set_.LeadingRun(chain);
  for (const BlockId block : chain) {
    if (set_.Holds(block)) links_.Remove(&list_, block);
  }
  for (std::size_t i = run; i < chain.size(); ++i) {
    if (set_.Holds(chain[i])) continue;
    if (set_.full()) {
      const BlockId victim = links_.PopFirst(&list_);
      if (victim == kNoBlock) break;
      set_.Remove(victim);
    }
    set_.Add(chain[i]);
  }
  for (std::size_t i = chain.size(); i-- > 0;) {
    if (set_.Holds(chain[i])) links_.PushLast(&list_, chain[i]);
  }
  return run;
}

void LfuBlocks::Grow(std::size_t blocks) {
  links_.Grow(blocks);
  uses_.resize(blocks);
}

void LfuBlocks::Pin(BlockId block) {
  const auto at = by_uses_.find(uses_[block]);
  links_.Remove(&at->second, block);
  if (at->second.empty()) by_uses_.erase(at);
}

BlockId LfuBlocks::Victim(BlockId) {
  if (by_uses_.empty()) return kNoBlock;
  const auto least = by_uses_.begin();
  const BlockId block = links_.PopFirst(&least->second);
  if (least->second.empty()) by_uses_.erase(least);
  return block;
}

void LfuBlocks::Used(BlockId block, bool) {
  ++uses_[block];
  links_.PushLast(&by_uses_[uses_[block]], block);
}

}  // namespace spillway
