#include "demo/agent.h"

#include <map>
#include <mutex>

#include <gtest/gtest.h>

#include "demo/content.h"
#include "demo/testing/cache_contexts.h"
#include "demo/workflow.h"
#include "spillway/testing.h"

namespace spillway::demo {
namespace {

constexpr AgentSettings kAtOnce{
    .bytes_per_token = 16, .prefill_per_token = Duration::zero(), .think = Duration::zero()};
constexpr Conversation kShort{.turns_at_first = 2, .turns_most = 4, .turns_kept = 1};

class AgentTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Options options;
    options.capacity = 4 * kMiB;
    options.pressure = pressure_;
    auto opened = Cache::Open(options);
    ASSERT_TRUE(opened) << opened.error().message;
    cache_ = std::move(*opened);
  }

  std::unique_ptr<demo::Contexts> Contexts() {
    return std::make_unique<demo::testing::CacheContexts>(cache_.get());
  }

  const std::shared_ptr<spillway::testing::ManualPressure> pressure_ =
      std::make_shared<spillway::testing::ManualPressure>(4 * kMiB);
  std::unique_ptr<Cache> cache_;
};

TEST_F(AgentTest, RecomputesAtFirstAndFindsItAllAfterwards) {
  Agent agent("coder", kShort, kAtOnce, Contexts());
  agent.TakeTurn({});
  EXPECT_EQ(agent.counts().blocks_found, 0U);
  EXPECT_EQ(agent.counts().blocks_missed, 10U);  // 4 system, 2 prefix, 2 turns of 2.
  agent.TakeTurn({});
  EXPECT_EQ(agent.counts().blocks_found, 12U);
  EXPECT_EQ(agent.counts().blocks_missed, 10U);
  EXPECT_EQ(agent.counts().turns, 2U);
  EXPECT_EQ(agent.counts().wrong_bytes, 0U);
  EXPECT_EQ(agent.view().blocks_found, 12U);
  EXPECT_EQ(agent.view().state, AgentState::kIdle);
  EXPECT_EQ(cache_->stats().misses, 10U);
}

TEST_F(AgentTest, TheSystemPromptIsSharedAndSetOnce) {
  Agent one("coder", kShort, kAtOnce, Contexts());
  Agent two("tester", kShort, kAtOnce, Contexts());
  one.TakeTurn({});
  two.TakeTurn({});
  EXPECT_EQ(two.counts().blocks_found, 4U);
  EXPECT_EQ(cache_->stats().sets, 12U + 8U);
}

TEST_F(AgentTest, CountsEveryWrongByteItReads) {
  Agent agent("coder", kShort, kAtOnce, Contexts());
  std::vector<std::byte> bytes(256 * 16);
  FillContent(SeedOf("system/0"), bytes);
  bytes[5] ^= std::byte{1};
  bytes[77] ^= std::byte{1};
  ASSERT_TRUE(cache_->Set("system/0", Source(bytes.data(), bytes.size()), {.tokens = 256}));
  agent.TakeTurn({});
  EXPECT_EQ(agent.counts().wrong_bytes, 2U);
}

TEST_F(AgentTest, AValueOfTheWrongSizeIsWrongAltogether) {
  Agent agent("coder", kShort, kAtOnce, Contexts());
  ASSERT_TRUE(cache_->Set("system/0", Source("short"), {.tokens = 256}));
  agent.TakeTurn({});
  EXPECT_EQ(agent.counts().wrong_bytes, 256U * 16U);
}

TEST_F(AgentTest, GoesOnWithoutACacheThatIsBlocked) {
  Agent agent("coder", kShort, kAtOnce, Contexts());
  pressure_->Set(0.97);
  cache_->Apply();
  ASSERT_TRUE(cache_->is_blocked());
  agent.TakeTurn({});
  EXPECT_EQ(agent.counts().turns, 1U);
  EXPECT_EQ(agent.counts().sets_refused, 2U);  // Once for the past, once for the new turn.
  EXPECT_EQ(cache_->size(), 0U);
}

TEST_F(AgentTest, HealsAChainThatLostItsTail) {
  Agent agent("coder", kShort, kAtOnce, Contexts());
  agent.TakeTurn({});
  ASSERT_TRUE(cache_->Erase("coder/1/t02/tool"));
  agent.TakeTurn({});
  EXPECT_EQ(agent.view().blocks_found, 8U);
  agent.TakeTurn({});
  EXPECT_EQ(agent.view().blocks_found, 14U);
  EXPECT_EQ(agent.counts().wrong_bytes, 0U);
}

TEST_F(AgentTest, StopsBetweenTwoSteps) {
  std::stop_source stop;
  stop.request_stop();
  AgentSettings slow = kAtOnce;
  slow.think = std::chrono::hours(1);
  Agent agent("coder", kShort, slow, Contexts());
  agent.TakeTurn(stop.get_token());
  EXPECT_EQ(agent.counts().turns, 0U);
}

TEST_F(AgentTest, ADozenWorkInRoundsUntilStopped) {
  std::mutex mutex;
  std::map<std::string, int> told;
  Workflow workflow(
      kAtOnce, [this] { return Contexts(); },
      [&](const std::vector<std::string_view>& words) {
        const std::lock_guard lock(mutex);
        ++told[std::string(words.at(1))];
        return Status();
      });
  std::jthread running([&](const std::stop_token& stop) { workflow.Run(Duration::zero(), stop); });
  while (workflow.rounds() < 3) std::this_thread::yield();
  running.request_stop();
  running.join();
  EXPECT_EQ(workflow.views().size(), 12U);
  for (const AgentView& view : workflow.views()) EXPECT_GT(view.turn, 0) << view.name;
  EXPECT_GE(workflow.counts().turns, 12U + 3U * 5U);
  EXPECT_EQ(workflow.counts().wrong_bytes, 0U);
  EXPECT_EQ(workflow.counts().failures, 0U);
  EXPECT_GE(told["LOAD"], 2);
  EXPECT_GE(told["START"], 3 * 5);
  EXPECT_LE(told["FINISH"], told["START"]);
  EXPECT_EQ(told["LOAD"], told["END"]);
}

TEST_F(AgentTest, ForgetsWhatAConversationLeavesBehind) {
  Agent agent("coder", kShort, kAtOnce, Contexts());
  for (int i = 0; i < 3; ++i) agent.TakeTurn({});  // After the fourth turn a new one begins.
  EXPECT_EQ(agent.view().conversation, 2);
  EXPECT_FALSE(cache_->Contains("coder/1/t01/tool"));
  EXPECT_FALSE(cache_->Contains("coder/1/t04/answer"));
  EXPECT_TRUE(cache_->Contains("coder/prefix/1"));
  EXPECT_TRUE(cache_->Contains("system/0"));
}

// Nobody answers.
class NoContexts final : public Contexts {
 public:
  Status Read(std::span<const std::string_view>, const Each&) override { return gone_; }
  Result<std::size_t> Match(std::span<const std::string_view>) override { return gone_; }
  Status Set(const Block&, std::string_view, std::span<const std::byte>) override { return gone_; }
  Status Forget(std::span<const std::string_view>) override { return gone_; }

 private:
  const Error gone_{Code::kUnavailable, "gone"};
};

TEST_F(AgentTest, GivesUpATurnThatNobodyAnswers) {
  Agent agent("coder", kShort, kAtOnce, std::make_unique<NoContexts>());
  agent.TakeTurn({});
  EXPECT_EQ(agent.counts().turns, 0U);
  EXPECT_EQ(agent.counts().failures, 1U);
  EXPECT_FALSE(agent.view().trouble.empty());
  EXPECT_EQ(agent.view().state, AgentState::kIdle);
}

// Spoils what it is told to keep.
class SpoiltContexts final : public Contexts {
 public:
  explicit SpoiltContexts(std::unique_ptr<Contexts> real) : real_(std::move(real)) {}
  Status Read(std::span<const std::string_view> keys, const Each& each) override {
    return real_->Read(keys, each);
  }
  Result<std::size_t> Match(std::span<const std::string_view> keys) override {
    return real_->Match(keys);
  }
  Status Set(const Block& block, std::string_view agent,
             std::span<const std::byte> bytes) override {
    std::vector<std::byte> spoilt(bytes.begin(), bytes.end());
    if (block.key == "coder/1/t03/answer") spoilt.front() ^= std::byte{1};
    return real_->Set(block, agent, spoilt);
  }
  Status Forget(std::span<const std::string_view> keys) override { return real_->Forget(keys); }

 private:
  const std::unique_ptr<Contexts> real_;
};

TEST_F(AgentTest, ReadsBackWhatItHasSet) {
  Agent agent("coder", kShort, kAtOnce, std::make_unique<SpoiltContexts>(Contexts()));
  agent.TakeTurn({});  // Its third turn is written, and nobody asked for it yet.
  EXPECT_EQ(agent.counts().wrong_bytes, 1U);
}

TEST_F(AgentTest, TimesWhatItFindsWhole) {
  Agent agent("coder", kShort, kAtOnce, Contexts());
  agent.TakeTurn({});
  EXPECT_EQ(agent.counts().resumes, 0U);
  agent.TakeTurn({});
  EXPECT_EQ(agent.counts().resumes, 1U);
  EXPECT_EQ(agent.counts().resumed_tokens, 6 * 256 + 3 * (256 + 128));
  EXPECT_GT(agent.view().resume, Duration::zero());
}

}  // namespace
}  // namespace spillway::demo
