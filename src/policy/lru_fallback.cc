// SPDX-License-Identifier: Apache-2.0
#include "policy/lru_fallback.h"

#include <algorithm>

namespace spillway {

void LruFallback::Observe(double now_s, std::size_t weight, std::size_t cache,
                          std::size_t by_last_use) {
  if (began_s_ < 0) began_s_ = now_s;
  cache_hits_ += cache;
  last_use_hits_ += by_last_use;
  weight_ += weight;
  ++uses_;
  if (uses_ < kWindowUses || now_s - began_s_ < kWindowS) return;
  Decide();
  cache_hits_ = last_use_hits_ = weight_ = 0;
  uses_ = 0;
  began_s_ = now_s;
}

void LruFallback::Decide() {
  if (left_ > 0) {
    --left_;
    return;
  }
  const double behind = static_cast<double>(last_use_hits_) - static_cast<double>(cache_hits_);
  if (behind <= kMargin * static_cast<double>(weight_)) {
    lead_windows_ = 1;
    return;
  }
  left_ = lead_windows_;
  lead_windows_ = std::min(lead_windows_ * 2, kLongestLead);
  ++fallbacks_;
}

}  // namespace spillway
