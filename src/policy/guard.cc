#include "policy/guard.h"

#include <algorithm>

namespace spillway {

void Guard::Observe(double now_s, std::size_t blocks, std::size_t cache, std::size_t recency,
                    std::size_t frequency) {
  if (began_s_ < 0) began_s_ = now_s;
  hits_[0] += cache;
  hits_[1] += recency;
  hits_[2] += frequency;
  blocks_ += blocks;
  ++requests_;
  if (requests_ < kWindowRequests || now_s - began_s_ < kWindowS) return;
  Decide();
  hits_ = {};
  blocks_ = 0;
  requests_ = 0;
  began_s_ = now_s;
}

void Guard::Decide() {
  if (leader_ != Leader::kScore) {
    if (--left_ == 0) leader_ = Leader::kScore;
    return;
  }
  const std::uint64_t best = std::max(hits_[1], hits_[2]);
  const double behind = static_cast<double>(best) - static_cast<double>(hits_[0]);
  if (behind <= kMargin * static_cast<double>(blocks_)) {
    lead_windows_ = 1;
    return;
  }
  leader_ = hits_[1] >= hits_[2] ? Leader::kRecency : Leader::kFrequency;
  left_ = lead_windows_;
  lead_windows_ = std::min(lead_windows_ * 2, kLongestLead);
  ++fallbacks_;
}

}  // namespace spillway
