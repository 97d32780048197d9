// SPDX-License-Identifier: Apache-2.0
// The structs behind spillway_cache and spillway_graph.
#pragma once

#include <cstdint>
#include <memory>

#include "base/mutex.h"
#include "capi/courier.h"
#include "capi/mailbox.h"
#include "spillway/cache.h"
#include "spillway/result.h"
#include "spillway/step_graph.h"

namespace spillway::capi {

// The number of forks between the first process and this one. It differs in parent and child, which
// tells a cache opened by the parent from one opened here. The threads of the parent's cache do not
// exist in the child.
std::uint64_t ForkCount();
// Starts counting. Must be called before the first cache is opened.
void CountForks();

class AgentList;

}  // namespace spillway::capi

// Members are destroyed in reverse order, and that order matters.
struct spillway_cache {
  const std::uint64_t forks = spillway::capi::ForkCount();
  // Destroyed after the cache: batches end here until the cache has closed.
  std::unique_ptr<spillway::capi::Mailbox> mailbox;
  std::unique_ptr<spillway::Cache> cache;
  // Destroyed before the cache: its remaining tasks are submitted before the cache closes.
  std::unique_ptr<spillway::capi::Courier> courier;
  spillway::Mutex agents_mutex;
  // The attached list, or null.
  std::shared_ptr<spillway::capi::AgentList> agents SPILLWAY_GUARDED_BY(agents_mutex);
};

struct spillway_graph {
  std::shared_ptr<spillway::StepGraph> graph;
};

namespace spillway::capi {

// An error if `cache` is NULL or was opened by a parent process.
Status CheckHandle(const spillway_cache* cache);

}  // namespace spillway::capi
