// What a spillway_cache points to.
#pragma once

#include <memory>

#include "capi/mailbox.h"
#include "spillway/cache.h"

struct spillway_cache {
  // Above the cache: batches land here until that has closed.
  std::unique_ptr<spillway::capi::Mailbox> mailbox;
  std::unique_ptr<spillway::Cache> cache;
};
