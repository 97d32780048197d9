// SPDX-License-Identifier: Apache-2.0
// Lists of blocks by number: several lists share one array of links. A block is in at most one
// list.
#pragma once

#include <cstddef>
#include <vector>

#include "replay/order/block_cache.h"

namespace spillway {

// The links of all blocks.
class BlockLinks {
 public:
  struct List {
    BlockId first = kNoBlock;
    BlockId last = kNoBlock;
    std::size_t size = 0;
    bool empty() const { return first == kNoBlock; }
  };

  void Grow(std::size_t blocks) { links_.resize(blocks); }
  BlockId after(BlockId block) const { return links_[block].after; }

  void PushLast(List* list, BlockId block) {
    links_[block] = {list->last, kNoBlock};
    (list->last == kNoBlock ? list->first : links_[list->last].after) = block;
    list->last = block;
    ++list->size;
  }
  void Remove(List* list, BlockId block) {
    const Link link = links_[block];
    (link.before == kNoBlock ? list->first : links_[link.before].after) = link.after;
    (link.after == kNoBlock ? list->last : links_[link.after].before) = link.before;
    --list->size;
  }
  BlockId PopFirst(List* list) {
    const BlockId block = list->first;
    if (block != kNoBlock) Remove(list, block);
    return block;
  }

 private:
  struct Link {
    BlockId before;
    BlockId after;
  };
  std::vector<Link> links_;
};

}  // namespace spillway
