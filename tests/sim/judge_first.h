// SPDX-License-Identifier: Apache-2.0
// Whether another entry should have been evicted before `entry`: compares all of them.
#pragma once

#include <fmt/format.h>

#include "sim/judge.h"

namespace spillway::sim {

template <typename May>
void Judge::CheckFirst(By by, EntryNo entry, May&& may) {
  const Entry& leaving = model_.at(entry);
  if (leaving.leases > 0) return Fail(kLeases, Describe(entry) + " left while leased");
  if (leaving.children > 0) {
    return Fail(kWhoLeaves, Describe(entry) + " left before its children");
  }
  if (!may(leaving)) {
    return Fail(kWhoLeaves, Describe(entry) + " left, but is not one of those who may");
  }
  if (!Ranks(by) || !LookClosely()) return;
  for (const EntryNo other : model_.live()) {
    const Entry& o = model_.at(other);
    if (other == entry || o.leases > 0 || o.children > 0 || !may(o)) continue;
    if (Before(by, o, leaving)) {
      return Fail(kWhoLeaves, fmt::format("{} left, but by order '{}' {} comes first",
                                          Describe(entry), NameOf(by), Describe(other)));
    }
  }
}

}  // namespace spillway::sim
