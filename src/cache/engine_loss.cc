// SPDX-License-Identifier: Apache-2.0
// A device that is lost while the cache runs: the cache continues with its other tiers.
// Entries with a copy below are read there; the others are lost, and their events say
// so.
#include "cache/engine.h"

namespace spillway {

bool Engine::InDoubt() const {
  return top_->id == TierId::kDevice && store_->memory(TierId::kDevice)->in_doubt();
}

void Engine::NoticeLoss(TimePoint now) {
  TierState& tier = *top_;
  if (tier.id != TierId::kDevice || closed_) return;
  if (!tier.gone) {
    if (!store_->memory(TierId::kDevice)->is_lost()) return;
    tier.gone = true;
    Sample(TierId::kDevice, std::nullopt, 0, now);
  } else if (!tier.remains) {
    return;
  }
  tier.remains = false;
  for (std::uint32_t slot = 0; slot < store_->slots().high_water(); ++slot) {
    const TierMask copies = store_->slots().record(slot).copies;
    if (!Has(copies, TierId::kDevice) || !store_->IsLive(store_->IdOf(slot))) continue;
    if (copies == MaskOf(TierId::kDevice)) {
      // Readers keep the addresses they have; the bytes may be gone.
      RemoveEvenIfLeased(slot, {Action::kDestroy, Reason::kLost, {}}, now);
    } else if (!Drop(tier, slot, {Action::kDrop, Reason::kLost, {}}, now)) {
      tier.remains = true;
    }
  }
  RecordTransfers(now);
}

}  // namespace spillway
