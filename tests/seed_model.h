// SPDX-License-Identifier: Apache-2.0
// The preset `seed` again, from its description in the design alone: a list and loops,
// no engine. spillway simulate --preset seed must agree with it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace spillway {

class SeedModel {
 public:
  struct Entry {
    std::string key;
    std::int64_t tokens = 0;
    std::int64_t access_count = 1;
    std::int64_t last_use_ns = 0;
    bool offloaded = false;
  };
  struct Event {
    std::string key;
    std::string_view action;
    std::string_view reason;
  };

  // In the order in which keys were inserted since they were last absent.
  std::vector<Entry> entries;
  std::string_view mode = "relaxed";
  bool blocked = false;
  std::vector<Event> events;  // Of the last call.

  bool Set(const std::string& key, std::int64_t tokens, std::int64_t now_ns) {
    events.clear();
    if (blocked) return false;
    const Entry fresh{key, tokens, 1, now_ns, false};
    if (Entry* old = Find(key); old != nullptr) {
      events.push_back({key, "destroy", "replaced"});
      *old = fresh;
    } else {
      entries.push_back(fresh);
    }
    if (mode == "pressure" || mode == "critical" || mode == "emergency") RunPolicy(now_ns);
    return true;
  }

  bool Get(const std::string& key, std::int64_t now_ns) {
    events.clear();
    Entry* entry = Find(key);
    if (entry == nullptr) return false;
    ++entry->access_count;
    entry->last_use_ns = now_ns;
    return true;
  }

  bool Delete(const std::string& key) {
    events.clear();
    if (Find(key) == nullptr) return false;
    Remove(key, "erased");
    return true;
  }

  void Clear() {
    events.clear();
    for (const Entry& entry : entries) events.push_back({entry.key, "destroy", "cleared"});
    entries.clear();
  }

  void Pressure(std::optional<double> value, std::int64_t now_ns) {
    events.clear();
    if (!value) return;  // Unknown: the level stays.
    const std::string_view next = *value >= 0.96   ? "emergency"
                                  : *value >= 0.92 ? "critical"
                                  : *value >= 0.85 ? "pressure"
                                  : *value >= 0.70 ? "normal"
                                                   : "relaxed";
    if (next == mode) return;
    mode = next;
    blocked = mode == "emergency";
    RunPolicy(now_ns);
  }

 private:
  Entry* Find(const std::string& key) {
    for (Entry& entry : entries) {
      if (entry.key == key) return &entry;
    }
    return nullptr;
  }

  void Remove(const std::string& key, std::string_view reason) {
    events.push_back({key, "destroy", reason});
    std::erase_if(entries, [&](const Entry& entry) { return entry.key == key; });
  }

  void RunPolicy(std::int64_t now_ns) {
    constexpr std::int64_t kSecond = 1'000'000'000;
    const std::vector<Entry> all = entries;
    if (mode == "pressure" && !all.empty()) EvictHeaviest(std::max<std::size_t>(1, all.size() / 4));
    for (const Entry& entry : all) {
      const std::int64_t idle = now_ns - entry.last_use_ns;
      if (mode == "normal" && idle > 120 * kSecond) Remove(entry.key, "idle");
      if (mode == "emergency" && idle > 30 * kSecond) Remove(entry.key, "idle");
      if (mode == "critical" && idle > 30 * kSecond && !entry.offloaded) {
        events.push_back({entry.key, "demote", "idle"});
        Find(entry.key)->offloaded = true;
      }
    }
  }

  void EvictHeaviest(std::size_t count) {
    const auto weight = [](const Entry& entry) {
      return static_cast<double>(entry.tokens) /
             static_cast<double>(std::max<std::int64_t>(entry.access_count, 1));
    };
    std::vector<Entry> ranked = entries;
    std::stable_sort(ranked.begin(), ranked.end(),
                     [&](const Entry& a, const Entry& b) { return weight(a) > weight(b); });
    for (std::size_t i = 0; i < count; ++i) Remove(ranked[i].key, "heavy");
  }
};

}  // namespace spillway
