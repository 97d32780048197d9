// The table of contexts: all entries, searched, sorted and paged.
#pragma once

#include <string>

#include "http/api_json.h"
#include "spillway/cache.h"
#include "spillway/result.h"

namespace spillway::http {

struct PageQuery {
  std::string search = {};  // In key and agent.
  std::string sort = "idle";
  bool desc = false;
  std::size_t offset = 0;
  std::size_t limit = 100;
};

// An unknown `sort` is an error that names those there are. Looks at every entry;
// what it keeps of each meanwhile is its key and 24 bytes.
Result<Json> ContextsJson(const Cache& cache, const PageQuery& query);

}  // namespace spillway::http
