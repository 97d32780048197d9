// SPDX-License-Identifier: Apache-2.0
// The table of contexts: all entries, searched, sorted and in pages.
#pragma once

#include <string>

#include "http/api_json.h"
#include "spillway/cache.h"
#include "spillway/result.h"

namespace spillway::http {

// Which page of the table.
struct PageQuery {
  std::string search = {};  // Searched for in key and agent.
  std::string sort = "idle";
  bool desc = false;
  std::size_t offset = 0;
  std::size_t limit = 100;
};

// One page of the table. An unknown `sort` is an error that lists the known ones. Reads every
// entry; meanwhile it keeps the key and 24 bytes of each.
Result<Json> ContextsJson(const Cache& cache, const PageQuery& query);

}  // namespace spillway::http
