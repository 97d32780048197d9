// SPDX-License-Identifier: Apache-2.0
// A cache's counts of its groups of keys, compared with a look at every slot.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "cache/store.h"

namespace spillway::testing {

// A few groups for keys of all kinds; for Options::key_group.
inline std::uint8_t GroupByLastByte(std::string_view key) {
  return static_cast<std::uint8_t>(static_cast<unsigned char>(key.back()) % 5);
}

// Empty: the counts are right. Call it on the strand, between events.
inline std::string WrongCounts(const Store& store) {
  std::array<Index::Count, kKeyGroups> there{};
  for (std::uint32_t id = 0; id < store.slots().high_water(); ++id) {
    const Slot& slot = store.slots().slot(id);
    if (!store.slots().IsTaken(id)) continue;
    if (LeaseWord::StateOf(slot.word.Load()) != SlotState::kVisible) continue;
    Index::Count& count = there.at(store.GroupOf(slot.key()));
    ++count.entries;
    if (slot.has_deadline) ++count.with_deadline;
  }
  std::string wrong;
  for (std::size_t group = 0; group < kKeyGroups; ++group) {
    const Index::Count& says = store.index().counts().at(group);
    if (says.entries == there.at(group).entries &&
        says.with_deadline == there.at(group).with_deadline) {
      continue;
    }
    wrong += fmt::format("group {} counts {} entries, {} with a deadline; {} and {} are there. ",
                         group, says.entries, says.with_deadline, there.at(group).entries,
                         there.at(group).with_deadline);
  }
  return wrong;
}

}  // namespace spillway::testing
