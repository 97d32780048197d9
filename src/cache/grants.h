// Grants: free memory promised to neighbours who asked for it. We do not grow
// into what they have not taken yet.
//
// Nobody tells whose memory is whose: whatever others have taken since counts as
// taken by those who asked. What others held when it began is the base; it
// follows them down, so that memory somebody else gives back meanwhile does not
// hide what is taken.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "spillway/units.h"

namespace spillway {

class Grants {
 public:
  // `who` has so much from now on; 0: nothing any more.
  void Set(std::uint64_t who, Bytes bytes) {
    if (grants_.empty()) base_ = others_;
    const auto at = std::find_if(grants_.begin(), grants_.end(),
                                 [&](const Grant& grant) { return grant.who == who; });
    if (at == grants_.end()) {
      if (bytes > 0) grants_.push_back({who, bytes});
    } else if (bytes > 0) {
      at->bytes = bytes;
    } else {
      base_ += std::min(at->bytes, taken());  // With who may have taken it.
      grants_.erase(at);
    }
  }
  // What others hold, by a reading.
  void See(Bytes others) {
    others_ = others;
    base_ = std::min(base_, others);
  }

  bool any() const { return !grants_.empty(); }
  Bytes granted() const {
    Bytes all = 0;
    for (const Grant& grant : grants_) all += grant.bytes;
    return all;
  }
  // Granted and not taken yet.
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

  std::vector<Grant> grants_;  // A few.
  Bytes others_ = 0;
  Bytes base_ = 0;
};

}  // namespace spillway
