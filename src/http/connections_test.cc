// SPDX-License-Identifier: Apache-2.0
#include "http/connections.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace spillway::http {
namespace {

class Fake : public Connection {
 public:
  explicit Fake(Connections* all) : all_(all) {}
  ~Fake() override { all_->Remove(this); }
  void Close() override {
    closed = true;
    all_->Remove(this);
  }
  bool closed = false;

 private:
  Connections* const all_;
};

class ConnectionsTest : public ::testing::Test {
 protected:
  Fake* Add(const std::string& peer) {
    fakes_.push_back(std::make_unique<Fake>(&all_));
    return all_.Add(fakes_.back().get(), peer) ? fakes_.back().get() : nullptr;
  }

  Connections all_{3, 1000};
  std::vector<std::unique_ptr<Fake>> fakes_;
};

TEST_F(ConnectionsTest, ClosesTheOneThatHasWaitedLongest) {
  Fake* const a = Add("x");
  Fake* const b = Add("x");
  Fake* const c = Add("x");
  all_.Keep(a);
  all_.AwaitClient(a);  // It was answered: now b has waited longest.
  EXPECT_NE(Add("x"), nullptr);
  EXPECT_TRUE(b->closed);
  EXPECT_NE(Add("x"), nullptr);
  EXPECT_TRUE(c->closed);
  EXPECT_FALSE(a->closed);
  EXPECT_EQ(all_.count(), 3U);
  EXPECT_EQ(all_.closed_for_others(), 2U);
}

TEST_F(ConnectionsTest, NeverClosesWhatItWorksFor) {
  Fake* const a = Add("x");
  Fake* const b = Add("x");
  Fake* const c = Add("x");
  for (Fake* const each : {a, b, c}) all_.Keep(each);
  EXPECT_EQ(Add("x"), nullptr);
  EXPECT_EQ(all_.count(), 3U);
  all_.AwaitClient(b);
  EXPECT_NE(Add("x"), nullptr);
  EXPECT_TRUE(b->closed);
}

TEST_F(ConnectionsTest, TheAddressWithTheMostConnectionsPays) {
  Fake* const old = Add("one");
  Fake* const first = Add("crowd");
  Fake* const second = Add("crowd");
  EXPECT_NE(Add("another"), nullptr);
  EXPECT_TRUE(first->closed);
  EXPECT_FALSE(old->closed);
  EXPECT_FALSE(second->closed);
}

TEST_F(ConnectionsTest, ShedsWhatHoldsMemoryAndNothingElse) {
  Fake* const empty = Add("x");
  Fake* const a = Add("x");
  Fake* const b = Add("x");
  all_.Hold(a, 600);
  EXPECT_EQ(all_.held(), 600U);
  all_.Hold(b, 600);
  EXPECT_TRUE(a->closed);
  EXPECT_FALSE(empty->closed);
  EXPECT_EQ(all_.held(), 600U);
  all_.Hold(b, 5000);  // A single connection may hold more.
  EXPECT_FALSE(b->closed);
  all_.Hold(b, 0);
  EXPECT_EQ(all_.held(), 0U);
}

}  // namespace
}  // namespace spillway::http
