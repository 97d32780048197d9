// SPDX-License-Identifier: Apache-2.0
#include "http/contexts_json.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/printable.h"

namespace spillway::http {

namespace {

constexpr std::size_t kHexInPage = std::size_t{4} << 20U;  // For all keys of an answer together.

enum class By : std::uint8_t {
  kKey,
  kAgent,
  kTokens,
  kBytes,
  kIdle,
  kUses,
  kLeases,
  kTier,
  kSteps
};
struct Sort {
  std::string_view name;
  By by;
};
constexpr std::array<Sort, 9> kSorts = {{{"key", By::kKey},
                                         {"agent", By::kAgent},
                                         {"tokens", By::kTokens},
                                         {"bytes", By::kBytes},
                                         {"idle", By::kIdle},
                                         {"uses", By::kUses},
                                         {"leases", By::kLeases},
                                         {"tier", By::kTier},
                                         {"steps", By::kSteps}}};

// What is kept of an entry while a page is made: its sort value, and where its name is in one long
// text of all names.
struct Row {
  std::int64_t rank = 0;
  std::size_t key_at = 0;
  std::uint32_t key_size = 0;
  std::uint32_t agent_size = 0;  // Stored before the key; only if rows are sorted by it.
};

using Steps = std::unordered_map<std::string, std::uint32_t>;

// Steps until use, for all keys that a live run needs.
Steps StepsOf(const Cache& cache) {
  Steps steps;
  const std::shared_ptr<StepGraph> graph = cache.attached_graph();
  if (graph == nullptr) return steps;
  graph->VisitChanges(0, cache.now(), [&](std::string_view key, const KeyFacts& facts) {
    if (facts.steps) steps.emplace(key, *facts.steps);
  });
  return steps;
}

std::int64_t RankOf(const Cache::EntryInfo& entry, By by, const Steps& steps) {
  switch (by) {
    case By::kTokens:
      return entry.tokens;
    case By::kBytes:
      return static_cast<std::int64_t>(entry.bytes);
    case By::kIdle:
      return entry.idle.count();
    case By::kUses:
      return static_cast<std::int64_t>(entry.access_count);
    case By::kLeases:
      return static_cast<std::int64_t>(entry.leases);
    case By::kTier:
      return entry.tier == "device" ? 0 : entry.tier == "host" ? 1 : 2;
    case By::kSteps: {
      const auto found = steps.find(std::string(entry.key));
      return found == steps.end() ? std::numeric_limits<std::int64_t>::max() : found->second;
    }
    case By::kKey:
    case By::kAgent:
      break;
  }
  return 0;
}

class Rows {
 public:
  Rows(const Cache& cache, std::string_view search, By by) {
    const Steps steps = by == By::kSteps ? StepsOf(cache) : Steps();
    rows_.reserve(cache.size());
    cache.ForEach([&](const Cache::EntryInfo& entry) {
      if (!search.empty() && entry.key.find(search) == std::string_view::npos &&
          entry.agent.find(search) == std::string_view::npos) {
        return;
      }
      const std::string_view agent = by == By::kAgent ? entry.agent : std::string_view();
      rows_.push_back({RankOf(entry, by, steps), names_.size(),
                       static_cast<std::uint32_t>(entry.key.size()),
                       static_cast<std::uint32_t>(agent.size())});
      names_ += agent;
      names_ += entry.key;
    });
  }

  std::size_t size() const { return rows_.size(); }

  // The keys of the page. Ties are broken by the key.
  std::vector<std::string_view> Page(std::size_t from, std::size_t to, bool desc) {
    const auto before = [&](const Row& a, const Row& b) { return desc ? Less(b, a) : Less(a, b); };
    const auto at = [&](std::size_t i) { return rows_.begin() + static_cast<std::ptrdiff_t>(i); };
    if (from > 0) std::nth_element(rows_.begin(), at(from), rows_.end(), before);
    std::partial_sort(at(from), at(to), rows_.end(), before);
    std::vector<std::string_view> keys;
    for (std::size_t i = from; i < to; ++i) keys.push_back(Key(rows_[i]));
    return keys;
  }

 private:
  bool Less(const Row& a, const Row& b) const {
    if (a.rank != b.rank) return a.rank < b.rank;
    const std::string_view first = Agent(a);
    const std::string_view second = Agent(b);
    return first != second ? first < second : Key(a) < Key(b);
  }
  std::string_view Agent(const Row& row) const {
    return std::string_view(names_).substr(row.key_at, row.agent_size);
  }
  std::string_view Key(const Row& row) const {
    return std::string_view(names_).substr(row.key_at + row.agent_size, row.key_size);
  }

  std::vector<Row> rows_;
  std::string names_;
};

Json RowJson(const Cache::EntryInfo& entry, const StepGraph* graph, TimePoint now,
             std::size_t* hex_left) {
  Json json = KeyJson(entry.key);
  if (json.contains("hex")) {
    const std::size_t bytes = 2 * entry.key.size();
    if (bytes > *hex_left) json.erase("hex");
    *hex_left -= std::min(*hex_left, bytes);
  }
  AddEntryJson(entry, &json);
  if (graph == nullptr) return json;
  const KeyFacts facts = graph->Facts(entry.key, now);
  if (facts.steps) json["steps"] = *facts.steps;
  return json;
}

}  // namespace

Result<Json> ContextsJson(const Cache& cache, const PageQuery& query) {
  const auto found = std::ranges::find(kSorts, std::string_view(query.sort), &Sort::name);
  if (found == kSorts.end()) {
    std::string names;
    for (const Sort& each : kSorts) names += (names.empty() ? "" : ", ") + std::string(each.name);
    return Error{Code::kInvalidArgument,
                 fmt::format("sort: '{}' is not known; known: {}", Printable(query.sort), names)};
  }
  Rows rows(cache, query.search, found->by);
  const std::size_t from = std::min(query.offset, rows.size());
  const std::size_t to = std::min(from + query.limit, rows.size());
  const std::shared_ptr<StepGraph> graph = cache.attached_graph();
  const TimePoint now = cache.now();
  std::size_t hex_left = kHexInPage;
  Json page = Json::array();
  for (const std::string_view key : rows.Page(from, to, query.desc)) {
    // Entries removed meanwhile are skipped.
    cache.Visit(key, [&](const Cache::EntryInfo& entry) {
      page.push_back(RowJson(entry, graph.get(), now, &hex_left));
    });
  }
  return Json{{"total", cache.size()}, {"matching", rows.size()}, {"contexts", std::move(page)}};
}

}  // namespace spillway::http
