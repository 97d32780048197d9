// SPDX-License-Identifier: Apache-2.0
// Every fault the fakes can produce, against a cache that reads pressure through them:
// what it does then, and what it does when the source is back. This test writes the
// table of it, docs/reference/monitor-faults.md.
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "monitor/source/kind.h"
#include "monitor/testing/fake_driver.h"
#include "monitor/testing/file_tree.h"
#include "run_program.h"
#include "spillway/cache.h"
#include "spillway/testing.h"

namespace spillway {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

constexpr Duration kPeriod = milliseconds(20);
constexpr Bytes kValue = 4 * kKiB;
constexpr std::string_view kPage = SPILLWAY_TESTS_DIR "/../docs/reference/monitor-faults.md";

// A fault of a source that can be undone.
struct Fault {
  std::string name;
  std::function<void()> begin;
  // The source still has an answer, so the cache continues as before.
  bool answered = false;
  // A call does not return.
  bool hangs = false;
};

struct Row {
  std::string source, fault, sees, while_it_lasts, after;
};

double Milliseconds(SteadyClock::duration took) {
  return std::chrono::duration<double, std::milli>(took).count();
}

class MonitorFaults : public ::testing::Test {
 protected:
  void OpenCache(const std::shared_ptr<PressureSource>& source) {
    Options options;
    options.capacity = 64 * kMiB;
    options.clock = clock_;
    options.pressure = source;
    options.sample_period = kPeriod;
    cache_ = std::move(*Cache::Open(options));
    ASSERT_TRUE(cache_->Start());
  }

  bool Set(const std::string& key) {
    const std::string value(kValue, 'v');
    return cache_->Set(key, Source(value)).has_value();
  }
  bool Unknown() const { return !cache_->pressure().has_value(); }
  // Without reads that timed out: on a busy machine a good source has such, too.
  std::uint64_t FailuresSaid() const {
    const auto source = cache_->stats().source;
    return source.failures - source.hangs;
  }

  static bool Wait(const std::function<bool()>& until) {
    const auto end = SteadyClock::now() + std::chrono::seconds(20);
    while (!until()) {
      if (SteadyClock::now() > end) return false;
      std::this_thread::sleep_for(milliseconds(1));
    }
    return true;
  }

  // One fault, from good to good again.
  Row Run(const std::string& source, const Fault& fault, const std::function<void()>& end) {
    Row row{source, fault.name, {}, {}, {}};
    EXPECT_TRUE(Wait([&] { return !Unknown() && cache_->stats().source.reads > 0; }));
    const std::uint64_t failures = FailuresSaid();
    const auto begin = SteadyClock::now();
    fault.begin();
    if (fault.answered) {
      const std::uint64_t reads = cache_->stats().source.reads;
      EXPECT_TRUE(Wait([&] { return cache_->stats().source.reads >= reads + 3; }));
      EXPECT_TRUE(Wait([&] { return !Unknown(); }));
      EXPECT_EQ(FailuresSaid(), failures);
      row.sees = "a reading";
      row.while_it_lasts = "as before";
    } else {
      Suffer(fault, begin, &row);
    }
    const auto back = SteadyClock::now();
    end();
    EXPECT_TRUE(Wait([&] { return !Unknown(); }))
        << source << ", " << fault.name << ": " << cache_->stats().source.last_error << "; "
        << cache_->stats().source.reads << " reads, hung " << cache_->stats().source.hung;
    const double known_after = Milliseconds(SteadyClock::now() - back);
    if (fault.answered) {
      row.after = "-";
    } else {
      row.after =
          known_after <= 2000 ? "known again within 2 s" : "known again, but not within 2 s";
    }
    fmt::print("{}: {}: known again after {:.0f} ms\n", source, fault.name, known_after);
    EXPECT_TRUE(Set(fmt::format("after {}", fault.name)));
    return row;
  }

  void Suffer(const Fault& fault, SteadyClock::time_point begin, Row* row) {
    if (fault.hangs) {
      EXPECT_TRUE(Wait([&] { return cache_->stats().source.hung; })) << fault.name;
      // On the virtual clock: three periods after the last reading no call of the cache
      // counts it any more, whatever the monitor does.
      clock_->Advance(3 * kPeriod + Duration(1));
      Set("asks for its age");
    }
    EXPECT_TRUE(Wait([&] { return Unknown(); })) << row->source << ", " << fault.name;
    const double unknown_after = Milliseconds(SteadyClock::now() - begin);
    row->sees =
        fault.hangs ? "no answer: UNKNOWN within 3 periods" : "an error: UNKNOWN with that reading";

    // Nothing waits for the monitor, which may hang for good; and nothing grows.
    const Bytes before = cache_->stats().device.bytes;
    SteadyClock::duration slowest{};
    for (int i = 0; i < 200; ++i) {
      const auto call = SteadyClock::now();
      const std::string key = fmt::format("new {} {}", fault.name, i);
      EXPECT_TRUE(Set(key));  // In place of other entries.
      EXPECT_TRUE(*cache_->Get(key));
      slowest = std::max(slowest, SteadyClock::now() - call);
    }
    EXPECT_LE(cache_->stats().device.bytes, before) << fault.name;
    EXPECT_FALSE(cache_->stats().source.last_error.empty());
    row->while_it_lasts = "reads and writes go on, no growth";
    fmt::print("{}: {}: UNKNOWN after {:.0f} ms, slowest get and set {:.3f} ms; {}\n", row->source,
               fault.name, unknown_after, Milliseconds(slowest), cache_->stats().source.last_error);
  }

  void Fill() {
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(Set(fmt::format("old {}", i)));
  }

  const std::shared_ptr<testing::ManualClock> clock_ = std::make_shared<testing::ManualClock>();
  std::unique_ptr<Cache> cache_;
};

struct DriverCase {
  const SourceKind& (*kind)();
  std::string fake;
  std::vector<std::string> Machine::* library;
  std::string uuid;
  std::string query;
  std::vector<int> codes;
  std::string without;  // The fake without some function.
};

std::vector<DriverCase> DriverCases() {
  const auto range = [](int first, int last) {
    std::vector<int> codes;
    for (int code = first; code <= last; ++code) codes.push_back(code);
    return codes;
  };
  std::vector<int> nvml = range(1, 29);
  nvml.push_back(999);
  return {{NvmlKind, "nvml", &Machine::nvml, "GPU-11111111-1111-1111-1111-111111111111",
           "nvmlDeviceGetMemoryInfo_v2", nvml, "nvml_without_init"},
          {CudaKind,
           "cuda",
           &Machine::cuda,
           "GPU-11111111-1111-1111-1111-111111111111",
           "cuMemGetInfo_v2",
           {1, 2, 3, 4, 46, 100, 101, 201, 214, 400, 600, 700, 709, 719, 999},
           "cuda_without_memory"},
          {RocmSmiKind,
           "rocm_smi",
           &Machine::rocm_smi,
           "GPU-1111111111111111",
           "rsmi_dev_memory_usage_get",
           {1, 2, 3, 4, 5, 6, 8, 10, 11, 12, 14, 15, 16, -1},
           "rocm_smi_without_usage"},
          {AmdSmiKind,
           "amd_smi",
           &Machine::amd_smi,
           "11111111-1111-1111-1111-111111111111",
           "amdsmi_get_gpu_memory_usage",
           {1, 2, 3, 4, 5, 6, 8, 10, 14, 18, 30, 31, 32, 34, 39, 40, 41},
           "amd_smi_without_usage"}};
}

std::vector<Row>& Table() {
  static std::vector<Row> table;
  return table;
}

TEST_F(MonitorFaults, OfDriverLibraries) {
  for (const DriverCase& driver : DriverCases()) {
    const testing::FakeDriver fake(driver.fake);
    const auto card = [&](const std::string& figures) {
      return fmt::format("device 0000:1b:00.0 {} {}\n", driver.uuid, figures);
    };
    const std::string good = card("total 100000000000 free 60000000000");
    fake.Script(good);
    Machine machine;
    machine.*driver.library = {fake.path()};
    const auto source = driver.kind().Open(machine, "0000:1b:00.0");
    ASSERT_TRUE(source) << source.error().message;
    OpenCache(*source);
    Fill();
    const std::string name(driver.kind().name());
    const auto script = [&](const std::string& text) {
      return [&fake, text] { fake.Script(text); };
    };
    const auto heal = script(good);

    // Each code by itself; one row for all of them.
    Row codes;
    for (const int code : driver.codes) {
      // NVML's answer to an unknown layout is tested separately.
      if (driver.fake == "nvml" && (code == 13 || code == 25)) continue;
      codes = Run(name,
                  {fmt::format("error {}", code),
                   script(good + fmt::format("fail {} {}\n", driver.query, code)), false, false},
                  heal);
      if (HasFailure()) return;
    }
    codes.fault = "any error code of the query";
    Table().push_back(codes);
    std::vector<Fault> faults = {
        {"the query never returns", script(good + "hang " + driver.query + "\n"), false, true},
        {"the library throws", script(good + "throw " + driver.query + "\n")},
        {"the device is lost, then back", script(good + "lost\n")},
        {"no device any more, then back", script("")},
        {"a total of 0", script(card("total 0 free 0"))},
        {"a total of all ones", script(card("total max free 5 used 5"))},
        {"the figures stand still", script(good + "freeze\n"), true},
    };
    if (driver.fake == "nvml" || driver.fake == "cuda") {
      faults.push_back({"more free than there is", script(card("total 1000 free 2000 used 0"))});
    } else {
      faults.push_back({"more used than there is", script(card("total 1000 free 0 used 2000"))});
    }
    if (driver.fake == "nvml") {
      faults.push_back(
          {"an older driver: another struct size", script(good + "wrong_size\n"), true});
    }
    for (const Fault& fault : faults) {
      Table().push_back(Run(name, fault, heal));
      if (HasFailure()) return;
    }
    cache_.reset();

    // A fault at the start is reported at the start.
    const testing::FakeDriver lacking(driver.without);
    machine.*driver.library = {lacking.path()};
    const auto refused = driver.kind().Open(machine, "0000:1b:00.0");
    ASSERT_FALSE(refused);
    EXPECT_FALSE(refused.error().message.empty());
    Table().push_back({name, "a function is missing", "an error at start that names it",
                       "no cache is opened with it", "-"});
  }
}

TEST_F(MonitorFaults, OfFiles) {
  const testing::FileTree tree;
  const auto write = [&](std::string_view file, const std::string& text) {
    return [&tree, file, text] { tree.Write(file, text); };
  };
  {
    tree.Write("pressure", "0.4");
    const auto source = FileKind().Open(tree.Machine(), tree.Path("pressure"));
    ASSERT_TRUE(source) << source.error().message;
    OpenCache(*source);
    Fill();
    const auto heal = write("pressure", "0.4");
    const std::vector<Fault> faults = {
        {"garbage in the file", write("pressure", "\x01 who knows")},
        {"an empty file", write("pressure", "")},
        {"a number over 1", write("pressure", "1.5")},
        {"the file is gone, then back", [&tree] { tree.Remove("pressure"); }},
    };
    for (const Fault& fault : faults) Table().push_back(Run("file", fault, heal));
    cache_.reset();
  }
  const auto build = [&] {
    tree.Write("sys/class/drm/card0/device/uevent", "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:03:00.0\n");
    tree.Write("sys/class/drm/card0/device/mem_info_vram_total", "100000000000\n");
    tree.Write("sys/class/drm/card0/device/mem_info_vram_used", "40000000000\n");
  };
  const auto used = [&](const std::string& text) {
    return [&tree, text] { tree.Overwrite("sys/class/drm/card0/device/mem_info_vram_used", text); };
  };
  build();
  const auto source = AmdSysfsKind().Open(tree.Machine(), "0000:03:00.0");
  ASSERT_TRUE(source) << source.error().message;
  OpenCache(*source);
  Fill();
  const auto heal = [&] {
    tree.Remove("sys/class/drm");
    build();
    used("40000000000\n")();
  };
  const std::vector<Fault> faults = {
      {"more used than there is", used("200000000000\n")},
      {"all ones", used("18446744073709551615\n")},
      {"garbage", used("what?\n")},
      {"the card is gone, then back",
       [&] {
         used("")();
         tree.Remove("sys/class/drm");
       }},
      {"the figures stand still", [] {}, true},
  };
  for (const Fault& fault : faults) Table().push_back(Run("amd-sysfs", fault, heal));
}

// Last of this file's tests: the others have filled the table.
TEST_F(MonitorFaults, ZTheTableInTheDocsIsWhatWasSeen) {
  if (Table().size() < 20) GTEST_SKIP() << "the tests that fill the table did not run";
  std::string page =
      "# When the monitor's source fails\n\n"
      "Written by `tests/monitor_faults_test.cc` from what a cache did, with fake libraries and "
      "files in place of the drivers'. A cache never waits for its monitor: get, set and erase go "
      "on. UNKNOWN is neither 0 % nor 100 %: the tier does not grow, and brings its own bytes "
      "under 0.85 of its capacity. While it lasts, `stats().source.last_error` says why and "
      "`samples_failed` rises: alarm on that.\n\n"
      "| source | fault | what the cache sees | while it lasts | after it "
      "|\n|---|---|---|---|---|\n";
  for (const Row& row : Table()) {
    page += fmt::format("| {} | {} | {} | {} | {} |\n", row.source, row.fault, row.sees,
                        row.while_it_lasts, row.after);
  }
  if (std::getenv("SPILLWAY_WRITE_PAGES") != nullptr) {
    std::ofstream(std::string(kPage), std::ios::binary) << page;
  }
  EXPECT_EQ(FileText(std::string(kPage)), page)
      << "docs/reference/monitor-faults.md is not what this test saw; rerun with "
         "SPILLWAY_WRITE_PAGES=1";
}

}  // namespace
}  // namespace spillway
