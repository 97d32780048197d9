// SPDX-License-Identifier: Apache-2.0
// The model, by hand: what it lets a daemon answer, and what not.
#include "serversim/model.h"

#include <set>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace spillway::serversim {
namespace {

class ModelTest : public testing::Test {
 protected:
  std::string Answers(const Words& words, const std::string& reply, bool waited = false) {
    if (!waited) Begins();
    Command command{talker_, words, reply, ++commands_, waited, 0};
    return model_.Check(command);
  }
  void Begins() { talker_.start = model_.moment(); }
  void Acknowledged(const Words& words, const std::string& reply, bool waited = false) {
    EXPECT_EQ(Answers(words, reply, waited), "");
    model_.Acknowledge(commands_);
  }
  // The cache says that it has destroyed the key's value.
  void Leaves(const std::string& key) {
    there_.erase(key);
    EXPECT_EQ(model_.Left({0, key}, Action::kDestroy, Reason::kHeavy), "");
  }
  void IsKilled(bool trusted) {
    model_.Restart(false, true, trusted, {});
    EXPECT_EQ(model_.Loaded(), "");
  }
  static std::string Bulk(const std::string& value) {
    return fmt::format("${}\r\n{}\r\n", value.size(), value);
  }
  const std::string older_ = TextOf({1, 20});
  const std::string newer_ = TextOf({2, 20});

  std::set<std::string> there_;  // In the cache.
  std::uint64_t commands_ = 0;
  Talker talker_;
  Model model_{{.has_disk = true},
               {.unix_ms = [] { return std::int64_t{1'000'000}; },
                .is_there = [this](const KeyName& name) { return there_.contains(name.second); },
                .is_dead = [](const KeyName&) { return false; },
                .is_loading = [] { return false; },
                .refuses_writes = [] { return false; },
                .is_open = [] { return true; },
                .open_commands = [](const Talker*) { return std::vector<OpenCommand>(); },
                .reads_may_fail = [] { return false; },
                .is_faulty = [] { return false; },
                .now = [] { return TimePoint(); }}};
};

TEST_F(ModelTest, AfterAKillOnlyTheLastAcknowledgedValueIsRight) {
  there_.insert("k");
  Acknowledged({"SET", "k", older_}, "+OK\r\n");
  Acknowledged({"SET", "k", newer_}, "+OK\r\n");
  IsKilled(true);
  EXPECT_NE(Answers({"GET", "k"}, Bulk(older_)), "");
  EXPECT_EQ(Answers({"GET", "k"}, Bulk(newer_)), "");
}

TEST_F(ModelTest, WhatLeftBeforeItsAnswerMayBeBackAfterAKillAndNothingOlder) {
  for (const bool trusted : {true, false}) {
    there_.insert("k");
    Acknowledged({"SET", "k", older_}, "+OK\r\n");
    Begins();
    Leaves("k");  // The new value, which the cache had just taken.
    Acknowledged({"SET", "k", newer_}, "+OK\r\n", true);
    EXPECT_EQ(Answers({"GET", "k"}, "$-1\r\n"), "");
    there_.insert("k");
    IsKilled(trusted);
    if (trusted) {
      EXPECT_NE(Answers({"GET", "k"}, Bulk(older_)), "");
    }
    EXPECT_EQ(Answers({"GET", "k"}, Bulk(newer_)), "");
  }
}

}  // namespace
}  // namespace spillway::serversim
