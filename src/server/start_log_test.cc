// SPDX-License-Identifier: Apache-2.0
#include "server/start_log.h"

#include <string>

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spillway/version.h"

namespace spillway::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Started {
  Config config = DefaultConfig();
  Stats stats;
  std::string file;

  Started() {
    stats.device.name = "device";
    stats.device.capacity = 64 * kMiB;
    stats.source.name = "host";
  }
  std::string Said() const {
    return fmt::format("{}", fmt::join(StartLines(config, file, stats), "\n"));
  }
};

TEST(StartLog, SaysVersionDeviceCapacitiesTiersPolicyFileAndPassword) {
  Started started;
  started.config.cache.policy = "lru";
  started.config.cache.disk_dir = "/some/disk";
  started.config.server.password = "the-secret";
  started.file = "/some/spillwayd.toml";
  started.stats.host.name = "host";
  started.stats.host.capacity = 3 * kGiB;
  started.stats.disk.name = "disk";
  started.stats.disk.capacity = 5 * kGiB;
  EXPECT_THAT(started.Said(),
              AllOf(HasSubstr(SPILLWAY_VERSION), HasSubstr("config file /some/spillwayd.toml"),
                    HasSubstr("a password is set"), HasSubstr("device cpu"),
                    HasSubstr("device tier 64 MiB"), HasSubstr("host tier 3 GiB"),
                    HasSubstr("disk tier 5 GiB in /some/disk"), HasSubstr("policy lru"),
                    Not(HasSubstr("the-secret"))));
}

TEST(StartLog, SaysWhatThereIsNot) {
  const Started started;
  EXPECT_THAT(started.Said(), AllOf(HasSubstr("config file none"), HasSubstr("no password is set"),
                                    Not(HasSubstr("host tier")), Not(HasSubstr("disk tier"))));
}

TEST(StartLog, SaysWhatWasRecoveredOnceAllIsReadIn) {
  Started started;
  EXPECT_EQ(RecoveredLine(started.config, started.stats), std::nullopt);  // No disk tier.
  started.config.cache.disk_dir = "/some/disk";
  started.stats.disk.name = "disk";
  started.stats.loading = true;
  EXPECT_EQ(RecoveredLine(started.config, started.stats), std::nullopt);
  started.stats.loading = false;
  EXPECT_EQ(RecoveredLine(started.config, started.stats),
            "spillwayd: no entry was recovered from /some/disk");
  started.stats.disk.files.recovered = 478;
  started.stats.disk.files.recovery_rejected = 3;
  EXPECT_EQ(RecoveredLine(started.config, started.stats),
            "spillwayd: 478 entries were recovered from /some/disk; 3 damaged journal records or "
            "ranges were skipped");
}

}  // namespace
}  // namespace spillway::server
