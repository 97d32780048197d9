// SPDX-License-Identifier: Apache-2.0
// libspillway_ask.so in programs that know nothing of us, beside a cache that holds the card: on
// fake drivers, whose cards several processes share.
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ask/preload_fixture.h"

namespace spillway::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

INSTANTIATE_TEST_SUITE_P(Vendors, AskPreload, ::testing::Values(GpuKind::kCuda, GpuKind::kHip),
                         [](const auto& kind) { return std::string(Name(kind.param)); });

// With helpers that are linked with CUDA, and so for its fake only.
class AskPreloadCuda : public AskPreload {};
INSTANTIATE_TEST_SUITE_P(Vendors, AskPreloadCuda, ::testing::Values(GpuKind::kCuda),
                         [](const auto& kind) { return std::string(Name(kind.param)); });

TEST_P(AskPreload, EveryWayToADriverEndsInMemory) {
  std::vector<std::string> ways{linked(),           "program dlsym",   "program dlvsym",
                                "program deepbind", "program default", "program process"};
  if (cuda()) {
    ways.emplace_back("program process1");
    ways.emplace_back("program process2");
  }
  for (const std::string& way : ways) {
    SCOPED_TRACE(way);
    Fill();
    const std::string command = fmt::format("{} alloc:{}", way, Free() + 4 * kMiB);
    EXPECT_EQ(RunAsk(With::kNothing, command).out, "alloc code 2\n");
    const ProgramRun with = RunAsk(With::kLibrary, command);
    EXPECT_EQ(with.out, "alloc code 0\n") << with.err;
    EXPECT_THAT(with.err, HasSubstr("succeeded, "));
    EXPECT_THAT(with.err, Not(HasSubstr("dlerror")));
    NothingIsLost();
  }
}

TEST_P(AskPreload, EveryCallIsAskedFor) {
  const std::vector<std::pair<std::string, std::string>> calls =
      cuda() ? std::vector<std::pair<std::string, std::string>>{{"alloc", "cuMemAlloc_v2"},
                                                                {"pitch", "cuMemAllocPitch_v2"},
                                                                {"managed", "cuMemAllocManaged"},
                                                                {"async", "cuMemAllocAsync"},
                                                                {"thread", "cuMemAllocAsync_ptsz"},
                                                                {"pool", "cuMemAllocFromPoolAsync"},
                                                                {"create", "cuMemCreate"},
                                                                {"array", "cuArrayCreate_v2"}}
             : std::vector<std::pair<std::string, std::string>>{{"alloc", "hipMalloc"},
                                                                {"managed", "hipMallocManaged"},
                                                                {"async", "hipMallocAsync"},
                                                                {"pool", "hipMallocFromPoolAsync"},
                                                                {"create", "hipMemCreate"}};
  for (const std::string& way : {linked(), std::string("program dlsym")}) {
    SCOPED_TRACE(way);
    Fill();
    // Nothing is left after the first, so each of the others must be given something.
    std::string command = fmt::format("{} alloc:{}", way, Free());
    std::string want = "alloc code 0\n";
    for (const auto& [call, function] : calls) {
      command += fmt::format(" {}:{}", call, 6 * kMiB);
      want += fmt::format("{} code 0\n", call);
    }
    const ProgramRun run = RunAsk(With::kLibrary, command);
    EXPECT_EQ(run.out, want) << run.err;
    for (const auto& [call, function] : calls) {
      EXPECT_THAT(run.err,
                  HasSubstr(fmt::format(": {} of {} bytes: succeeded, ", function, 6 * kMiB)));
    }
    NothingIsLost();
  }
}

TEST_P(AskPreload, WhatNoCacheCanGiveIsTheDriversOwnAnswer) {
  Fill();
  const ProgramRun run =
      RunAsk(With::kLibrary, fmt::format("{} alloc:{} alloc:4096", linked(), 2 * kTotal));
  EXPECT_EQ(run.out, "alloc code 2\nalloc code 0\n") << run.err;
  EXPECT_THAT(run.err, HasSubstr("bytes: failed, "));
  EXPECT_THAT(run.err, HasSubstr("0 of 1 failed allocations succeeded after asking"));
  NothingIsLost();
}

TEST_P(AskPreload, AHundredThreadsThatFailAtOnceAllSucceed) {
  Fill();
  // The first leaves nothing to the threads.
  const ProgramRun run = RunAsk(
      With::kLibrary, fmt::format("{} alloc:{} threads:100:{}", linked(), Free(), 640 * kKiB),
      "SPILLWAY_ASK_WAIT=10000");
  EXPECT_EQ(run.out, "alloc code 0\nthreads 100 of 100\n") << run.err;
  NothingIsLost();
}

TEST_P(AskPreload, ProgramsThatAskAtOnceShareWhatThereIs) {
  Fill();
  const Bytes each = (Free() + cache_->stats().device.clean) / 2 - 8 * kMiB;
  const std::string one =
      Words(With::kLibrary, fmt::format("{} alloc:{} churn:20:4096", linked(), each),
            "SPILLWAY_ASK_WAIT=10000");
  const ProgramRun run = RunProgram(fmt::format("{} & {} & wait", one, one));
  for (const char* line : {"alloc code 0\n", "churn 20 failed 0\n"}) {
    const std::size_t first = run.out.find(line);
    ASSERT_NE(first, std::string::npos) << run.out << run.err;
    EXPECT_NE(run.out.find(line, first + 1), std::string::npos) << run.out << run.err;
  }
  NothingIsLost();
}

TEST_P(AskPreload, WhatHasNoCopyIsCopiedDownFirst) {
  options_.write_back_after.reset();
  Fill();
  ASSERT_EQ(cache_->stats().device.clean, 0U);
  const ProgramRun run =
      RunAsk(With::kLibrary, fmt::format("{} alloc:{}", linked(), Free() + 20 * kMiB),
             "SPILLWAY_ASK_WAIT=10000");
  EXPECT_EQ(run.out, "alloc code 0\n") << run.err;
  NothingIsLost();
}

TEST_P(AskPreload, NoErrorIsLeftBehindASuccess) {
  Fill();
  const ProgramRun run = RunAsk(
      With::kLibrary,
      fmt::format("{} alloc:{} alloc:{}{}", linked(), Free(), 4 * kMiB, cuda() ? "" : " last"));
  EXPECT_EQ(run.out, std::string("alloc code 0\nalloc code 0\n") + (cuda() ? "" : "last 0\n"));
}

TEST_P(AskPreload, AChildAndTheNextProgramAreServed) {
  Fill();
  const ProgramRun run = RunAsk(With::kLibrary, fmt::format("{} alloc:{} fork:{} exec:{}", linked(),
                                                            Free(), 4 * kMiB, 8 * kMiB));
  EXPECT_EQ(run.out, "alloc code 0\nfork code 0\nalloc code 0\n") << run.err;
  NothingIsLost();
}

TEST_P(AskPreload, BeforeInitAndAfterReloadTheDriverAnswers) {
  Fill();
  const ProgramRun raw = RunAsk(With::kLibrary, linked() + " raw:4096");
  EXPECT_EQ(raw.out, "raw code 3\n");
  const ProgramRun reloaded = RunAsk(
      With::kLibrary, fmt::format("program dlsym reload:1 alloc:{} reload:20 alloc:4096 alloc:4096",
                                  Free() + 4 * kMiB));
  EXPECT_EQ(reloaded.out, "alloc code 0\nalloc code 0\nalloc code 0\n") << reloaded.err;
}

TEST_P(AskPreloadCuda, OtherLibrariesInFrontOfTheDriverKeepTheirPlace) {
  const std::string other = SPILLWAY_ASK_PROGRAMS "/ask_interposer.so";
  const std::string ours = SPILLWAY_ASK_LIBRARY;
  for (const std::string& preload : {ours + ":" + other, other + ":" + ours}) {
    for (const std::string& way : {linked(), std::string("program dlsym")}) {
      SCOPED_TRACE(preload + " " + way);
      Fill();
      const ProgramRun run =
          RunAsk(With::kLibrary, fmt::format("{} alloc:{} alloc:4096", way, Free() + 4 * kMiB),
                 "LD_PRELOAD=" + preload);
      // In front of us it finds the C library's dlsym, and with that it goes past us.
      const bool past = preload.starts_with(other) && way == "program dlsym";
      EXPECT_EQ(run.out, fmt::format("alloc code {}\nalloc code 0\n", past ? 2 : 0)) << run.err;
      // In front of us it sees one call, behind us each try.
      const int calls = preload.starts_with(other) ? 2 : 3;
      EXPECT_THAT(run.err, HasSubstr(fmt::format("interposer: {} calls, {} failed", calls,
                                                 calls == 3 || past ? 1 : 0)));
    }
  }
}

TEST_P(AskPreloadCuda, AModuleWithADriverOfItsOwnIsServed) {
  Fill();
  const std::string command =
      fmt::format("host {}/ask_module.so {}", SPILLWAY_ASK_PROGRAMS, Free() + 4 * kMiB);
  EXPECT_EQ(RunAsk(With::kNothing, command).out, "module code 2, hidden 1\n");
  EXPECT_EQ(RunAsk(With::kLibrary, command).out, "module code 0, hidden 1\n");
}

// By ctypes, as the program of bench/gpu/run_ask.sh does on a card.
TEST_P(AskPreloadCuda, APythonProgramIsServed) {
  Fill();
  const std::string python = fmt::format(
      "env SPILLWAY_FAKE_GPU='{}' CUDA_LIBRARY='{}' {{}} python3 "
      "bench/gpu/py/ask_program.py --calls 6 --pause 0 --least {} --most {}",
      card_.Text(), gpu_.library(), Free() + 4 * kMiB, Free() + 8 * kMiB);
  EXPECT_THAT(RunProgram(fmt::format(fmt::runtime(python), "")).out,
              HasSubstr("\"calls\": 6, \"failed\": 6,"));
  const ProgramRun with =
      RunProgram(fmt::format(fmt::runtime(python), "LD_PRELOAD=" SPILLWAY_ASK_LIBRARY));
  EXPECT_THAT(with.out, HasSubstr("\"calls\": 6, \"failed\": 0,")) << with.err;
  NothingIsLost();
}

TEST_P(AskPreload, ProgramsWithoutAGpuAreLeftAlone) {
  const std::string preload = "LD_PRELOAD=" SPILLWAY_ASK_LIBRARY " SPILLWAY_ASK_LOG=stderr";
  const ProgramRun shell = RunProgram(
      fmt::format("env {} sh -c 'echo one; ls / >/dev/null && echo two; exit 5'", preload));
  EXPECT_EQ(shell.out, "one\ntwo\n");
  EXPECT_EQ(shell.err, "");
  EXPECT_EQ(shell.status, 5);
  // dlsym's answers are those of the caller's place, and its errors are its own.
  const ProgramRun python = RunProgram(fmt::format(
      "env {} python3 -c 'import ctypes, json, zlib\n"
      "c = ctypes.CDLL(None)\n"
      "print(hasattr(c, \"cuMemAlloc_v2\"), hasattr(c, \"strlen\"), hasattr(c, \"no_such\"))'",
      preload));
  EXPECT_EQ(python.out, "False True False\n");
  EXPECT_EQ(python.err, "");
}

// --- free memory as it is shown ---

// The two numbers of the n-th "info" line.
std::pair<Bytes, Bytes> Info(const std::string& out, int n) {
  std::size_t at = 0;
  for (; n >= 0; --n) at = out.find("info ", at) + 5;
  unsigned long long free = 0;
  unsigned long long total = 0;
  std::sscanf(out.c_str() + at, "%llu %llu", &free, &total);
  return {free, total};
}

TEST_P(AskPreload, FreeMemoryIsShownWithWhatTheCacheCouldGiveOnlyIfWanted) {
  Fill();
  const Bytes clean = cache_->stats().device.clean;
  const Bytes free = Free();
  ASSERT_GT(clean, 30 * kMiB);
  const auto plain = Info(RunAsk(With::kLibrary, linked() + " info").out, 0);
  EXPECT_EQ(plain.first, free);
  for (const std::string& way : {linked(), std::string("program dlsym")}) {
    const ProgramRun run = RunAsk(With::kShown, way + " info");
    EXPECT_EQ(Info(run.out, 0).first, free + clean) << run.err;
    EXPECT_EQ(Info(run.out, 0).second, kTotal);
  }
}

TEST_P(AskPreload, WhatIsShownFallsByWhatIsTakenAndIsThere) {
  Fill();
  const Bytes shown = Free() + cache_->stats().device.clean;
  const Bytes half = shown / 2 / kMiB * kMiB;
  const ProgramRun run =
      RunAsk(With::kShown, fmt::format("{} info alloc:{} info create:{} info free info free info",
                                       linked(), half, 4 * kMiB));
  EXPECT_THAT(run.out, HasSubstr("alloc code 0")) << run.err;
  EXPECT_EQ(Info(run.out, 0).first, shown);
  // Never above what was shown first less what was taken since, whatever the cache has freed.
  EXPECT_LE(Info(run.out, 1).first, shown - half);
  EXPECT_GE(Info(run.out, 1).first, shown - half - 8 * kMiB);
  EXPECT_LE(Info(run.out, 2).first, shown - half - 4 * kMiB);
  EXPECT_LE(Info(run.out, 3).first, shown - half);
  EXPECT_GT(Info(run.out, 3).first, Info(run.out, 2).first);
  EXPECT_LE(Info(run.out, 4).first, shown);
  EXPECT_GT(Info(run.out, 4).first, Info(run.out, 3).first);
}

}  // namespace
}  // namespace spillway::testing
