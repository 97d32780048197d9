// SPDX-License-Identifier: Apache-2.0
#include "cli/selftest.h"

#include <chrono>
#include <cstdio>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include "base/log.h"
#include "base/parse.h"
#include "base/times.h"
#include "cli/complain.h"
#include "cli/named_device.h"
#include "cli/selftest_checks.h"
#include "cli/selftest_rows.h"
#include "cli/stale_search.h"
#include "device/cpu/cpu_device.h"
#include "device/gpu/gpu_record.h"
#include "device/gpu/vmm_trial.h"
#include "monitor/bounded_read.h"
#include "monitor/machine.h"

namespace spillway {
namespace {

constexpr Duration kTrialWithin = std::chrono::seconds(10);
constexpr Bytes kCardBytes = 64 * kMiB;

// --- one GPU ---

// The driver's own calls: what a chunk costs, and whether its memory is returned.
void CheckDriver(const GpuDevice& gpu, DeviceReport* report) {
  const VmmTrial trial = gpu.TryVmm(kTrialWithin);
  if (!trial.good) {
    return report->Add("driver's chunks", CheckState::kFailed,
                       trial.why_not + (gpu.why_slabs().empty() ? "; caches rely on it here"
                                                                : "; caches use slabs here"));
  }
  report->Add("driver's chunks", CheckState::kOk,
              fmt::format("of {}: create {:.0f} us, map {:.0f} us, unmap {:.0f} us, release "
                          "{:.0f} us; content kept, memory back",
                          FormatBytes(gpu.chunk_bytes()), InMicroseconds(trial.create),
                          InMicroseconds(trial.map), InMicroseconds(trial.unmap),
                          InMicroseconds(trial.release)));
}

std::optional<bool> CheckStale(GpuDevice* gpu, HowLeft how, Bytes most, GpuRecord* record,
                               DeviceReport* report) {
  const std::string check = how == HowLeft::kExit ? "left by the dead" : "left by the living";
  const StaleSearch search = SearchStale(gpu, how, most);
  if (!search.trouble.empty()) {
    report->Add(check, CheckState::kSkipped, "not found out: " + search.trouble);
    return std::nullopt;
  }
  record->searched =
      record->searched == 0 ? search.searched : std::min(record->searched, search.searched);
  const std::string where =
      fmt::format("{} of new memory looked through", FormatBytes(search.searched));
  if (search.found > 0) {
    report->Add(check, CheckState::kOk,
                fmt::format("STALE: {}, {} of it another process's bytes; caches zero chunks "
                            "before they return them here",
                            where, FormatBytes(search.found)));
    return true;
  }
  report->Add(check, CheckState::kOk,
              fmt::format("{}, none of another process's bytes{}", where,
                          search.not_zero == 0 ? "; all zeros"
                                               : fmt::format(" ({} not zero, of unknown origin)",
                                                             FormatBytes(search.not_zero))));
  return false;
}

void Keep(const GpuRecord& record, DeviceReport* report) {
  if (!record.stale_after_exit && !record.stale_after_release) return;
  const Result<std::string> kept = WriteGpuRecord(record);
  if (kept) {
    report->Add("record", CheckState::kOk, "kept for caches in " + *kept);
  } else {
    report->Add("record", CheckState::kSkipped,
                "caches cannot read the result: " + kept.error().message);
  }
}

DeviceReport TestGpu(const NamedDevice& device, Bytes most) {
  DeviceReport report{.device = device.name()};
  auto opened = OpenGpu(device, {});
  if (!opened) {
    report.Add("open", CheckState::kFailed, opened.error().message);
    return report;
  }
  GpuDevice* const gpu = opened->get();
  const Machine machine = Machine::FromEnvironment();
  report.uuid = gpu->id();
  report.model = gpu->model();
  report.driver = VersionText(gpu->driver(), machine.proc, machine.sys);
  report.Add("driver", CheckState::kOk,
             fmt::format("{}, version {}", gpu->driver().library, report.driver));
  const Result<Reading> before = gpu->ReadMemory();
  if (!before) {
    report.Add("device", CheckState::kFailed, before.error().message);
    return report;
  }
  report.Add("device", CheckState::kOk,
             fmt::format("{}, {}, at {}, {} free of {}", report.model, report.uuid, gpu->pci(),
                         FormatBytes(before->free), FormatBytes(before->total)));
  report.Add("memory", CheckState::kOk,
             fmt::format("{}, granularity {}, chunks of {}",
                         gpu->why_slabs().empty()
                             ? "virtual memory management"
                             : "slabs, whose return waits for kernels: " + gpu->why_slabs(),
                         FormatBytes(gpu->granularity()), FormatBytes(gpu->chunk_bytes())));
  CheckDriver(*gpu, &report);
  const Result<Reading> at_first = gpu->ReadMemory();  // A failed trial may keep some memory.
  CheckChunks(gpu, &report);
  CheckCopies(gpu, gpu, &report);
  CheckKernels(gpu, &report);
  CheckGivenBack(gpu, at_first ? at_first->free : before->free, &report);
  GpuRecord record{
      .uuid = report.uuid, .kind = std::string(Name(gpu->driver().kind)), .version = report.driver};
  record.when = fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr)));
  record.stale_after_exit = CheckStale(gpu, HowLeft::kExit, most, &record, &report);
  record.stale_after_release = CheckStale(gpu, HowLeft::kRelease, most, &record, &report);
  if (record.stale_after_exit || record.stale_after_release) report.stale = record.stale();
  Keep(record, &report);
  return report;
}

// --- all ---

DeviceReport TestCard() {
  DeviceReport report{.device = "cpu", .model = "virtual card"};
  auto opened = CpuDevice::Open({.name = {}, .total = kCardBytes, .chunk_bytes = {}});
  if (!opened) {
    report.Add("open", CheckState::kFailed, opened.error().message);
    return report;
  }
  CpuDevice* const card = opened->get();
  const Bytes before = card->ReadMemory().value().free;
  report.Add("device", CheckState::kOk,
             fmt::format("virtual card of {}, chunks of {}", FormatBytes(card->total()),
                         FormatBytes(card->chunk_bytes())));
  CheckChunks(card, &report);
  CheckCopies(card, nullptr, &report);
  CheckGivenBack(card, before, &report);
  report.Add("left by others", CheckState::kSkipped, "the kernel hands out zeros only");
  return report;
}

// Every GPU of every driver. A missing driver is a row, too.
std::vector<DeviceReport> TestAll(Bytes most) {
  std::vector<DeviceReport> reports;
  const Machine machine = Machine::FromEnvironment();
  for (const GpuKind kind : {GpuKind::kCuda, GpuKind::kHip}) {
    const std::string vendor(Name(kind));
    const auto driver = LoadDriver(machine, kind);
    const Result<std::vector<GpuFacts>> gpus =
        driver ? ListGpus(**driver) : Result<std::vector<GpuFacts>>(driver.error());
    if (!gpus || gpus->empty()) {
      DeviceReport none{.device = vendor};
      none.Add("driver", CheckState::kSkipped,
               gpus ? (*driver)->library + " knows no device" : gpus.error().message);
      reports.push_back(std::move(none));
      continue;
    }
    for (const GpuFacts& gpu : *gpus) {
      NamedDevice device{.id = gpu.uuid, .is_gpu = true, .kind = kind, .gpu = gpu};
      reports.push_back(TestGpu(device, most));
    }
  }
  reports.push_back(TestCard());
  return reports;
}

}  // namespace

int RunSelftest(int argc, char** argv) {
  std::string device;
  std::string memory = "2GiB";
  bool json = false;
  LeaveOptions leave;
  CLI::App app(
      "Tries out every GPU and the virtual card: driver, chunks, copies bit by bit, kernels, and "
      "whether\nthe driver hands out what another process left in memory. What it finds out about "
      "that is kept for\ncaches (docs/reference/selftest.md).",
      "spillway selftest");
  app.add_option("--device", device,
                 "Only this one: cuda:N, hip:N (N: number, UUID or PCI address), a GPU's UUID or "
                 "cpu (default: all)");
  app.add_option("--memory", memory,
                 "Most memory to look through for what others left; never more than a quarter of "
                 "what is free")
      ->capture_default_str();
  app.add_flag("--json", json, "One JSON object instead of a table, to attach to a report");
  app.add_option("--leave", leave.how)->group("");  // For the second process.
  app.add_option("--pattern", leave.pattern)->group("");
  app.footer("Exit status: 0 if nothing failed, 1 if something did.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  SetLogLevel(LogLevel::kError);  // Everything else is in the report.
  const Result<Bytes> most = ParseBytes(memory);
  if (!most) return Complain("selftest", "--memory: " + most.error().message);
  if (!leave.how.empty()) {
    leave.device = device;
    leave.bytes = *most;
    return LeaveBytes(leave);
  }
  std::vector<DeviceReport> reports;
  if (device.empty()) {
    reports = TestAll(*most);
  } else {
    const Result<NamedDevice> named = FindDevice(device);
    if (!named) return Complain("selftest", "--device: " + named.error().message);
    if (!named->is_gpu && device != "cpu") {
      return Complain(
          "selftest",
          fmt::format("--device: '{}' is no GPU; there are cuda:N, hip:N, a GPU's UUID, and cpu, "
                      "which tries a private card",
                      device));
    }
    reports.push_back(named->is_gpu ? TestGpu(*named, *most) : TestCard());
  }
  if (json) {
    PrintJson(reports);
  } else {
    PrintTable(reports);
  }
  for (const DeviceReport& report : reports) {
    if (report.failed()) return 1;
  }
  return 0;
}

}  // namespace spillway
