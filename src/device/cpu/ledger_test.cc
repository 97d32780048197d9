// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/ledger.h"

#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "device/testing/sim_card.h"
#include "device/testing/test_seed.h"

namespace spillway {
namespace {

using testing::SimCard;

constexpr Bytes kTotal = 1000;

TEST(Ledger, ProcessesSeeOneAnotherAsFreeMemoryGoingDown) {
  SimCard card(kTotal);
  const auto one = card.Join();
  const auto two = card.Join();
  ASSERT_TRUE(one->ledger().Take(300));
  ASSERT_TRUE(two->ledger().Take(500));
  EXPECT_EQ(one->ledger().Free(), 200U);
  EXPECT_EQ(two->ledger().Free(), 200U);
  EXPECT_EQ(one->ledger().held(), 300U);
  one->ledger().Give(100);
  EXPECT_EQ(two->ledger().Free(), 300U);
}

TEST(Ledger, TakesAllOrNothing) {
  SimCard card(kTotal);
  const auto one = card.Join();
  ASSERT_TRUE(one->ledger().Take(900));
  const Status refused = one->ledger().Take(101);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kNoMemory);
  EXPECT_EQ(refused.error().message,
            "the simulated card is full: 101 B wanted, 100 B of 1000 B free");
  EXPECT_EQ(one->ledger().Free(), 100U);
  EXPECT_TRUE(one->ledger().Take(100));
  EXPECT_FALSE(one->ledger().Take(~Bytes{0}));  // No overflow.
  EXPECT_TRUE(one->ledger().Take(0));
}

TEST(Ledger, WhoLeavesTakesNothingAlong) {
  SimCard card(kTotal);
  const auto one = card.Join();
  {
    const auto two = card.Join();
    ASSERT_TRUE(two->ledger().Take(800));
    EXPECT_EQ(one->ledger().Free(), 200U);
  }
  EXPECT_EQ(one->ledger().Free(), kTotal);
  one->ledger().Leave();
  one->ledger().Leave();  // Harmless.
  EXPECT_EQ(one->ledger().Take(1).error().code, Code::kClosed);
}

TEST(Ledger, ADeadProcesssShareReturnsWhenSomebodyNeedsIt) {
  SimCard card(kTotal);
  const auto one = card.Join();
  const auto two = card.Join();
  ASSERT_TRUE(two->ledger().Take(800));
  two->Kill();
  EXPECT_EQ(one->ledger().Free(), 200U);  // The dead process is not yet detected.
  EXPECT_TRUE(one->ledger().Take(900));
  EXPECT_EQ(one->ledger().Free(), 100U);
  EXPECT_EQ(card.SharesHeld(), 900U);
}

TEST(Ledger, ADeadProcesssShareReturnsWhenSomebodyLooks) {
  SimCard card(kTotal);
  const auto one = card.Join();
  const auto two = card.Join();
  ASSERT_TRUE(two->ledger().Take(800));
  two->Kill();
  one->ledger().TryReap();
  EXPECT_EQ(one->ledger().Free(), kTotal);
  two->ledger().Give(800);  // The dead write nothing.
  EXPECT_EQ(two->ledger().Take(1).error().code, Code::kClosed);
  EXPECT_EQ(one->ledger().Free(), kTotal);
}

TEST(Ledger, ADeadProcesssShareReturnsWhenSomebodyJoins) {
  SimCard card(kTotal);
  const auto one = card.Join();
  const auto two = card.Join();
  ASSERT_TRUE(one->ledger().Take(100));
  ASSERT_TRUE(two->ledger().Take(800));
  two->Kill();
  const auto three = card.Join();
  EXPECT_EQ(three->ledger().Free(), 900U);
}

TEST(Ledger, TheLivingAreNeverReaped) {
  SimCard card(kTotal);
  const auto one = card.Join();
  const auto two = card.Join();
  ASSERT_TRUE(two->ledger().Take(800));
  one->ledger().TryReap();
  EXPECT_FALSE(one->ledger().Take(201));
  EXPECT_EQ(two->ledger().held(), 800U);
}

TEST(Ledger, AStoppedLockHolderIsAnErrorAndNotAWaitForEver) {
  SimCard card(kTotal);
  const auto one = card.Join();
  ASSERT_TRUE(one->ledger().Take(100));
  card.SetLockStuck(true);
  EXPECT_EQ(one->ledger().Take(1).error().code, Code::kBusy);
  EXPECT_EQ(one->ledger().Free(), 900U);  // Reading needs no lock,
  one->ledger().Give(100);                // nor does Give.
  EXPECT_EQ(one->ledger().Free(), kTotal);
}

TEST(Ledger, HasAsManySlotsAsItSaysAndNoMore) {
  SimCard card(kTotal);
  std::vector<std::unique_ptr<SimCard::Process>> processes;
  for (int i = 0; i < kLedgerSlots; ++i) processes.push_back(card.Join());
  SimCard::Process extra(&card);
  EXPECT_EQ(extra.ledger().Join(std::nullopt, 0, 1).error().code, Code::kBusy);
  processes[7]->Kill();
  EXPECT_TRUE(extra.ledger().Join(std::nullopt, 0, 1));
}

TEST(Ledger, ACardInUseKeepsItsTotalAndAnUnusedOneBeginsAnew) {
  SimCard card(kTotal);
  auto one = card.Join();
  SimCard::Process two(&card);
  const Status refused = two.ledger().Join(2000, 0, 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("1000 bytes"), std::string::npos);
  EXPECT_NE(refused.error().message.find("2000 bytes"), std::string::npos);
  ASSERT_TRUE(one->ledger().Take(600));
  one->Kill();
  ASSERT_TRUE(two.ledger().Join(2000, 0, 1));
  EXPECT_EQ(two.ledger().total(), 2000U);
  EXPECT_EQ(two.ledger().Free(), 2000U);
}

// Several processes take, give and die at random; a model says what the ledger must hold.
TEST(Ledger, HoldsWhateverProcessesDo) {
  const std::uint64_t seed = testing::TestSeed(20261115);
  SCOPED_TRACE("SPILLWAY_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  SimCard card(kTotal);
  struct Player {
    std::unique_ptr<SimCard::Process> process;
    Bytes held = 0;
  };
  std::vector<Player> players(6);
  for (Player& player : players) player.process = card.Join();
  for (int step = 0; step < 20'000; ++step) {
    Player& player = players[random() % players.size()];
    Bytes live = 0;
    for (const Player& other : players) live += other.held;
    const Bytes bytes = random() % 400;
    switch (random() % 8) {
      case 0:
        player.process->Kill();
        player.process = card.Join();
        player.held = 0;
        break;
      case 1:
      case 2:
      case 3:
        player.process->ledger().Give(std::min(bytes, player.held));
        player.held -= std::min(bytes, player.held);
        break;
      default:
        ASSERT_EQ(player.process->ledger().Take(bytes).has_value(), live + bytes <= kTotal);
        if (live + bytes <= kTotal) player.held += bytes;
    }
    ASSERT_EQ(player.process->ledger().held(), player.held);
    ASSERT_LE(card.SharesHeld(), kTotal);
  }
}

}  // namespace
}  // namespace spillway
