// SPDX-License-Identifier: Apache-2.0
// Grants: free memory reserved for neighbours that asked for it. The cache does not
// grow into the part of it they have not allocated yet.
//
// Drivers do not say which process holds which memory, so all memory that others
// allocate after a grant counts as taken by the processes that asked. `base_` is what
// others held when the first grant began. It follows others' memory down, so that
// memory which one process frees does not hide what another allocates.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "spillway/units.h"

namespace spillway {

class PeerReservations {
 public:
  // Grants `bytes` to `who` from now on; 0: ends the grant.
  void Set(std::uint64_t who, Bytes bytes) {
    if (reservations_.empty()) base_ = others_;
    const auto at = std::find_if(reservations_.begin(), reservations_.end(),
                                 [&](const Grant& grant) { return grant.who == who; });
    if (at == reservations_.end()) {
      if (bytes > 0) reservations_.push_back({who, bytes});
    } else if (bytes > 0) {
      at->bytes = bytes;
    } else {
      base_ += std::min(at->bytes, taken());  // Less what this process may have taken.
      reservations_.erase(at);
    }
  }
  // Records what others hold, by a reading.
  void See(Bytes others) {
    others_ = others;
    base_ = std::min(base_, others);
  }

  bool any() const { return !reservations_.empty(); }
  Bytes granted() const {
    Bytes all = 0;
    for (const Grant& grant : reservations_) all += grant.bytes;
    return all;
  }
  // Granted and not allocated yet.
  Bytes left() const {
    const Bytes all = granted();
    return all - std::min(all, taken());
  }

 private:
  struct Grant {
    std::uint64_t who;
    Bytes bytes;
  };
  Bytes taken() const { return others_ - std::min(others_, base_); }

  std::vector<Grant> reservations_;  // There are few.
  Bytes others_ = 0;
  Bytes base_ = 0;
};

}  // namespace spillway
