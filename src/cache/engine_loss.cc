// A device that is lost while the cache runs: the cache lives on with its other
// tiers. What has a copy below is read there; what had none is gone, and says so.
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
      // Its readers keep the addresses they have, for what these are worth.
      RemoveEvenIfLeased(slot, {Action::kDestroy, Reason::kLost, {}}, now);
    } else if (!Drop(tier, slot, {Action::kDrop, Reason::kLost, {}}, now)) {
      tier.remains = true;
    }
  }
  NoteMoves(now);
}

}  // namespace spillway
