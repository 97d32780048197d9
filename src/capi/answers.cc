// SPDX-License-Identifier: Apache-2.0
// The C ABI: pressure, state and statistics.
#include <chrono>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "cache/stats_json.h"
#include "capi/convert.h"
#include "capi/guard.h"
#include "capi/handle.h"
#include "spillway/spillway.h"

using namespace spillway;        // NOLINT(google-build-using-namespace)
using namespace spillway::capi;  // NOLINT(google-build-using-namespace)

extern "C" {

spillway_code spillway_cache_apply(spillway_cache* cache, const double* pressure,
                                   std::int32_t* level, spillway_eviction_visitor visit,
                                   void* context) {
  return Guarded([&]() -> Status {
    if (Status ok = CheckHandle(cache); !ok) return ok;
    if (pressure != nullptr && !(*pressure >= 0 && *pressure <= 1)) {
      return Bad(fmt::format("pressure is {}: it must be from 0 to 1", *pressure));
    }
    const Applied applied =
        cache->cache->Apply(pressure == nullptr ? std::nullopt : std::optional<double>(*pressure));
    if (level != nullptr) *level = static_cast<std::int32_t>(applied.level);
    if (visit == nullptr) return {};
    for (const Eviction& eviction : applied.left) {
      const spillway_eviction shown = {
          BytesOf(eviction.key), static_cast<std::int32_t>(eviction.action),
          static_cast<std::int32_t>(eviction.reason), eviction.bytes, eviction.tokens};
      visit(&shown, context);
    }
    return {};
  });
}

spillway_code spillway_cache_reclaim(spillway_cache* cache, std::uint64_t bytes,
                                     std::int64_t within_ms, std::uint64_t* freed,
                                     char** why_not_more) {
  return Guarded([&]() -> Status {
    if (Status ok = CheckHandle(cache); !ok) return ok;
    if (freed == nullptr) return Bad("freed is NULL");
    if (why_not_more != nullptr) *why_not_more = nullptr;
    const Reclaimed reclaimed = cache->cache->Reclaim(bytes, Within(within_ms));
    *freed = reclaimed.freed;
    if (why_not_more != nullptr) *why_not_more = NewText(reclaimed.why_not_more);
    return {};
  });
}

spillway_code spillway_cache_read_state(spillway_cache* cache, spillway_state* state) {
  return Guarded([&]() -> Status {
    if (Status ok = CheckHandle(cache); !ok) return ok;
    if (state == nullptr) return Bad("state is NULL");
    const Cache& inside = *cache->cache;
    const std::optional<double> pressure = inside.pressure();
    spillway_state read{};
    read.mode = static_cast<std::int32_t>(inside.mode());
    read.level = static_cast<std::int32_t>(inside.level());
    read.pressure_known = pressure ? 1 : 0;
    read.pressure = pressure.value_or(0);
    read.blocked = inside.is_blocked() ? 1 : 0;
    read.entries = inside.size();
    read.tokens = inside.total_tokens();
    return WriteSized(read, "state", state);
  });
}

spillway_code spillway_cache_read_stats(spillway_cache* cache, spillway_stats* stats) {
  return Guarded([&]() -> Status {
    if (Status ok = CheckHandle(cache); !ok) return ok;
    if (stats == nullptr) return Bad("stats is NULL");
    return WriteSized(FromStats(cache->cache->stats()), "stats", stats);
  });
}

spillway_code spillway_cache_stats_json(spillway_cache* cache, char** json) {
  return Guarded([&]() -> Status {
    if (Status ok = CheckHandle(cache); !ok) return ok;
    if (json == nullptr) return Bad("json is NULL");
    *json = nullptr;
    *json = NewText(StatsJson(cache->cache->stats()));
    return {};
  });
}

spillway_code spillway_cache_explain(spillway_cache* cache, spillway_bytes key, char** text) {
  return Guarded([&]() -> Status {
    if (Status ok = CheckHandle(cache); !ok) return ok;
    if (text == nullptr) return Bad("text is NULL");
    *text = nullptr;
    if (Status ok = CheckBytes(key, "key"); !ok) return ok;
    *text = NewText(cache->cache->Explain(View(key)));
    return {};
  });
}

spillway_code spillway_cache_for_each(spillway_cache* cache, spillway_entry_visitor visit,
                                      void* context) {
  return Guarded([&]() -> Status {
    if (Status ok = CheckHandle(cache); !ok) return ok;
    if (visit == nullptr) return Bad("visit is NULL");
    bool enough = false;
    cache->cache->ForEach([&](const Cache::EntryInfo& info) {
      if (enough) return;
      const spillway_entry entry = {
          sizeof(spillway_entry),
          BytesOf(info.key),
          BytesOf(info.agent),
          info.tokens,
          info.bytes,
          info.access_count,
          std::chrono::duration_cast<std::chrono::milliseconds>(info.idle).count(),
          info.leases,
          info.offloaded ? 1 : 0};
      enough = visit(&entry, context) != 0;
    });
    return {};
  });
}

}  // extern "C"
