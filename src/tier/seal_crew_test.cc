// SPDX-License-Identifier: Apache-2.0
#include "tier/seal_crew.h"

#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "base/testing/guarded_bytes.h"
#include "base/testing/seed.h"

namespace spillway {
namespace {

std::vector<std::byte> Random(Bytes bytes, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> value(bytes);
  for (std::byte& byte : value) byte = static_cast<std::byte>(random());
  return value;
}

TEST(SealCrew, MakesTheSealThatOneThreadMakes) {
  SealCrew crew(3);
  for (const Bytes bytes : {Bytes{0}, Bytes{1}, kMiB - 1, kMiB, kMiB + 1, 9 * kMiB + 77}) {
    const std::vector<std::byte> value = Random(bytes, 1);
    SealCrew::Job job(&crew, value.data(), bytes);
    for (Bytes at = 0; at < bytes; at += 300 * kKiB) job.Arrived(at);
    EXPECT_EQ(job.Finish(), Seal::Of(Source(value.data(), bytes))) << bytes;
  }
}

TEST(SealCrew, ReadsNothingThatHasNotArrived) {
  SealCrew crew(4);
  std::vector<std::byte> value(8 * kMiB);  // All zeros, until it arrives.
  const std::vector<std::byte> right = Random(value.size(), 2);
  SealCrew::Job job(&crew, value.data(), value.size());
  for (Bytes at = 0; at < value.size(); at += kMiB / 2) {
    std::copy_n(right.begin() + static_cast<std::ptrdiff_t>(at), kMiB / 2,
                value.begin() + static_cast<std::ptrdiff_t>(at));
    job.Arrived(at + kMiB / 2);
    std::this_thread::yield();
  }
  EXPECT_EQ(job.Finish(), Seal::Of(Source(right.data(), right.size())));
}

TEST(SealCrew, AJobThatIsCalledOffLetsGoOfItsValue) {
  const std::uint64_t seed = testing::Seed(3);
  std::mt19937_64 random(seed);
  SealCrew crew(4);
  const std::vector<std::byte> bytes = Random(4 * kMiB, static_cast<unsigned>(seed));
  for (int i = 0; i < 60; ++i) {
    testing::GuardedBytes value(bytes);
    {
      SealCrew::Job job(&crew, value.data(), value.size());
      job.Arrived(value.size());
      // Destroyed at a random moment: before any piece, in between, after all.
      for (std::uint64_t turns = random() % 4; turns > 0; --turns) std::this_thread::yield();
    }
    value.TakeAway();  // A thread that still reads would crash here.
  }
  // The crew still works.
  SealCrew::Job job(&crew, bytes.data(), bytes.size());
  EXPECT_EQ(job.Finish(), Seal::Of(Source(bytes.data(), bytes.size()))) << "seed " << seed;
}

TEST(SealCrew, SeveralValuesAtOnceAndNoThreadsAtAll) {
  for (const std::size_t threads : {std::size_t{0}, std::size_t{2}}) {
    SealCrew crew(threads);
    std::vector<std::thread> clients;
    for (unsigned i = 0; i < 4; ++i) {
      clients.emplace_back([&crew, i] {
        const std::vector<std::byte> value = Random((i + 1) * kMiB + i, i);
        SealCrew::Job job(&crew, value.data(), value.size());
        job.Arrived(value.size() / 2);
        EXPECT_EQ(job.Finish(), Seal::Of(Source(value.data(), value.size())));
      });
    }
    for (std::thread& client : clients) client.join();
  }
}

}  // namespace
}  // namespace spillway
