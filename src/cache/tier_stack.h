// SPDX-License-Identifier: Apache-2.0
// The tiers a cache is built on: any of the three, at least one. Null: the cache has no
// such tier.
#pragma once

#include <memory>

#include "cache/tier_id.h"
#include "tier/blob_store.h"
#include "tier/tier.h"

namespace spillway {

struct TierStack {
  std::unique_ptr<Tier> device;
  std::unique_ptr<Tier> host;
  std::unique_ptr<BlobStore> disk;

  TierMask mask() const {
    return static_cast<TierMask>((device ? MaskOf(TierId::kDevice) : 0) |
                                 (host ? MaskOf(TierId::kHost) : 0) |
                                 (disk ? MaskOf(TierId::kDisk) : 0));
  }
};

}  // namespace spillway
