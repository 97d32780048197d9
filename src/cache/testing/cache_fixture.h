// SPDX-License-Identifier: Apache-2.0
// A cache on the embedded cpu device, with time and pressure by hand, that records
// which entries were evicted and why.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "spillway/cache.h"
#include "spillway/testing.h"

namespace spillway::testing {

struct Seen {
  std::string key;
  Action action;
  Reason reason;
  Level level;
  std::string order;
};

class CacheTest : public ::testing::Test {
 protected:
  CacheTest() { options_.capacity = kMiB; }

  Options WithWorld() {
    Options options = options_;
    options.clock = clock_;
    options.pressure = pressure_;
    options.on_event = [this](const Event& event) {
      events_.push_back({std::string(event.key), event.action, event.reason, event.level,
                         std::string(event.order)});
    };
    return options;
  }
  Cache& Open() {
    auto cache = Cache::Open(WithWorld());
    if (!cache) throw std::runtime_error(cache.error().message);
    cache_ = std::move(*cache);
    return *cache_;
  }
  Status Set(std::string_view key, std::string_view value, SetOptions options = {}) {
    return cache_->Set(key, Source(value), options);
  }
  std::string Get(std::string_view key) {
    auto got = cache_->Get(key);
    if (!got || !*got) return "(miss)";
    return std::string((*got)->text());
  }
  std::vector<std::string> Left() {
    std::vector<std::string> out;
    for (const Seen& seen : events_) {
      out.push_back(seen.key + ":" + std::string(Name(seen.action)) + ":" +
                    std::string(Name(seen.reason)));
    }
    events_.clear();
    return out;
  }

  std::shared_ptr<ManualClock> clock_ = std::make_shared<ManualClock>();
  std::shared_ptr<ManualPressure> pressure_ = std::make_shared<ManualPressure>(kMiB);
  Options options_;
  std::vector<Seen> events_;
  std::unique_ptr<Cache> cache_;
};

}  // namespace spillway::testing
