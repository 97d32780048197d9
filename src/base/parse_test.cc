// SPDX-License-Identifier: Apache-2.0
#include "base/parse.h"

#include <chrono>

#include <gtest/gtest.h>

namespace spillway {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;

TEST(ParseBytes, ReadsWhatPeopleWrite) {
  EXPECT_EQ(ParseBytes("0").value(), 0U);
  EXPECT_EQ(ParseBytes("1000").value(), 1000U);
  EXPECT_EQ(ParseBytes("1000B").value(), 1000U);
  EXPECT_EQ(ParseBytes("4GiB").value(), 4 * kGiB);
  EXPECT_EQ(ParseBytes("512MiB").value(), 512 * kMiB);
  EXPECT_EQ(ParseBytes("64kib").value(), 64 * kKiB);
  EXPECT_EQ(ParseBytes(" 1.5 GiB ").value(), kGiB + kGiB / 2);
  EXPECT_EQ(ParseBytes("2GB").value(), 2'000'000'000U);
  EXPECT_EQ(ParseBytes("3TiB").value(), 3 * (1024 * kGiB));
  EXPECT_EQ(ParseBytes("18446744073709551615").value(), 18446744073709551615U);
}

TEST(ParseBytes, RefusesWhatIsNotASizeAndSaysWhy) {
  for (const char* bad : {"", "  ", "GiB", "-1", "+1", "4G", "10%", "1.GiB", ".5GiB", "1e3", "1 2",
                          "4 GiB x", "18446744073709551616", "17000000TiB", "0x10"}) {
    const Result<Bytes> result = ParseBytes(bad);
    ASSERT_FALSE(result) << bad;
    EXPECT_EQ(result.error().code, Code::kInvalidArgument);
    EXPECT_NE(result.error().message.find(bad), std::string::npos) << result.error().message;
  }
  EXPECT_EQ(
      ParseBytes("4G").error().message,
      "\"4G\" is not a size: the unit \"G\" is none of B, KiB, MiB, GiB, TiB, kB, MB, GB or TB");
}

TEST(ParseDuration, ReadsWhatPeopleWrite) {
  EXPECT_EQ(ParseDuration("20s").value(), seconds(20));
  EXPECT_EQ(ParseDuration("500ms").value(), milliseconds(500));
  EXPECT_EQ(ParseDuration("2min").value(), minutes(2));
  EXPECT_EQ(ParseDuration("1.5 h").value(), minutes(90));
  EXPECT_EQ(ParseDuration("250us").value(), microseconds(250));
  EXPECT_EQ(ParseDuration("7ns").value(), nanoseconds(7));
  EXPECT_EQ(ParseDuration("0").value(), seconds(0));
  EXPECT_EQ(ParseDuration("1d").value(), hours(24));
  EXPECT_EQ(ParseDuration("0.999999d").value(), nanoseconds(86'399'913'600'000));
}

TEST(ParseDuration, NeedsAUnitAndRefusesNonsense) {
  for (const char* bad : {"", "20", "s", "-1s", "2 weeks", "300000d", "1m"}) {
    EXPECT_FALSE(ParseDuration(bad)) << bad;
  }
  EXPECT_EQ(ParseDuration("20").error().message,
            "\"20\" is not a duration: it needs a unit, as in 500ms, 20s or 2min");
}

TEST(FormatBytes, UsesTheLargestUnitAndThreeDigits) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1000), "1000 B");
  EXPECT_EQ(FormatBytes(64 * kKiB), "64 KiB");
  EXPECT_EQ(FormatBytes(kGiB + kGiB / 2), "1.5 GiB");
  EXPECT_EQ(FormatBytes(Bytes{14'400'000}), "13.7 MiB");
  EXPECT_EQ(FormatBytes(2048 * kGiB), "2 TiB");
}

TEST(FormatDuration, UsesTheLargestUnitAndThreeDigits) {
  EXPECT_EQ(FormatDuration(Duration::zero()), "0 s");
  EXPECT_EQ(FormatDuration(microseconds(250)), "250 us");
  EXPECT_EQ(FormatDuration(milliseconds(1500)), "1.5 s");
  EXPECT_EQ(FormatDuration(minutes(10)), "10 min");
  EXPECT_EQ(FormatDuration(-milliseconds(20)), "-20 ms");
}

TEST(FormatBytes, RoundSizesComeBackFromTheirText) {
  for (Bytes bytes : {Bytes{0}, Bytes{1}, kKiB, 64 * kKiB, 3 * kMiB, 32 * kMiB, 8 * kGiB}) {
    EXPECT_EQ(ParseBytes(FormatBytes(bytes)).value(), bytes);
  }
}

}  // namespace
}  // namespace spillway
