// What a spillway_cache and a spillway_graph point to.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "capi/courier.h"
#include "capi/mailbox.h"
#include "spillway/cache.h"
#include "spillway/result.h"
#include "spillway/step_graph.h"

namespace spillway::capi {

// Rises in a child each time a process forks, so that what the parent opened is
// told from what is our own: its threads have not come along.
std::uint64_t ForkCount();
// From the first call on, forks are counted.
void CountForks();

class AgentList;

}  // namespace spillway::capi

struct spillway_cache {
  const std::uint64_t forks = spillway::capi::ForkCount();
  // Above the cache: batches land here until that has closed.
  std::unique_ptr<spillway::capi::Mailbox> mailbox;
  std::unique_ptr<spillway::Cache> cache;
  // Below it: what it still carries is submitted before the cache closes.
  std::unique_ptr<spillway::capi::Courier> courier;
  std::mutex agents_mutex;
  std::shared_ptr<spillway::capi::AgentList> agents;  // Attached, or none; guarded by it.
};

struct spillway_graph {
  std::shared_ptr<spillway::StepGraph> graph;
};

namespace spillway::capi {

// There is one, and it is this process's.
Status CheckHandle(const spillway_cache* cache);

}  // namespace spillway::capi
