// SPDX-License-Identifier: Apache-2.0
// The library inside C programs that clang's sanitizers watch: address and undefined behaviour,
// and threads.
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ask/preload_fixture.h"

namespace spillway::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class AskSanitized : public AskPreload {};
INSTANTIATE_TEST_SUITE_P(Vendors, AskSanitized, ::testing::Values(GpuKind::kCuda),
                         [](const auto& kind) { return std::string(Name(kind.param)); });

TEST_P(AskSanitized, NothingIsFound) {
  for (const char* sanitizer : {"address", "thread"}) {
    SCOPED_TRACE(sanitizer);
    Fill();
    const ProgramRun run =
        RunAsk(With::kNothing,
               fmt::format(
                   "{} linked info alloc:{} threads:40:{} create:{} info alloc:{} free churn:50:{}",
                   sanitizer, Free(), 320 * kKiB, 4 * kMiB, kTotal, 4096),
               "SPILLWAY_ASK_SHOW=1 SPILLWAY_ASK_WAIT=10000");
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_THAT(run.out, HasSubstr("threads 40 of 40\ncreate code 0\n")) << run.err;
    EXPECT_THAT(run.out, HasSubstr("alloc code 2\n"));
    EXPECT_THAT(run.out, HasSubstr("churn 50 failed 0\n"));
    EXPECT_THAT(run.err, Not(HasSubstr("Sanitizer")));
    EXPECT_THAT(run.err, Not(HasSubstr("runtime error")));
    NothingIsLost();
  }
}

}  // namespace
}  // namespace spillway::testing
