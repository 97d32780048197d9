// SPDX-License-Identifier: Apache-2.0
// AMD's older management library, which every ROCm installation has.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/quiet_stderr.h"
#include "base/symbols.h"
#include "monitor/source/smi.h"

namespace spillway {

namespace {

struct RocmSmi {
  using Id = std::uint32_t;  // An index; may differ after the next initialisation.
  static constexpr const char* kTotalCall = "rsmi_dev_memory_total_get";
  static constexpr const char* kUsageCall = "rsmi_dev_memory_usage_get";

  int (*init)(std::uint64_t) = nullptr;
  int (*shut_down)() = nullptr;
  int (*count)(std::uint32_t*) = nullptr;
  int (*memory_total)(Id, int, std::uint64_t*) = nullptr;
  int (*memory_usage)(Id, int, std::uint64_t*) = nullptr;
  int (*pci_id)(Id, std::uint64_t*) = nullptr;
  int (*unique_id)(Id, std::uint64_t*) = nullptr;
  int (*device_name)(Id, char*, std::size_t) = nullptr;
  int (*status_string)(int, const char**) = nullptr;
  std::unique_ptr<Session> session;

  static bool KeepsState(int code);
  Status Bind(const Library& library);
  Status Start() const;
  std::function<void()> Stop() const {
    return [stop = shut_down] { stop(); };
  }
  Error Failed(std::string_view call, int code) const {
    return SmiError(status_string, call, code);
  }
  Result<std::vector<Id>> Devices() const;
  Result<std::string> PciOf(Id id) const;
  void Describe(Id id, Found* found) const;
};

// Errors after which the library still works. After all other codes, such as 3
// (a file of the device is missing), it is initialised again.
bool RocmSmi::KeepsState(int code) {
  switch (code) {
    case 2:     // Not supported.
    case 4:     // No permission.
    case 5:     // Out of resources.
    case 0xc:   // Interrupted.
    case 0x10:  // Busy.
      return true;
    default:
      return false;
  }
}

Status RocmSmi::Bind(const Library& library) {
  Symbols symbols(library);
  symbols.Need("rsmi_init", &init);
  symbols.Need("rsmi_shut_down", &shut_down);
  symbols.Need("rsmi_num_monitor_devices", &count);
  symbols.Need(kTotalCall, &memory_total);
  symbols.Need(kUsageCall, &memory_usage);
  symbols.Need("rsmi_dev_pci_id_get", &pci_id);
  symbols.May("rsmi_dev_unique_id_get", &unique_id);
  symbols.May("rsmi_dev_name_get", &device_name);
  symbols.May("rsmi_status_string", &status_string);
  return symbols.Done();
}

Status RocmSmi::Start() const {
  // By default the library guards each device with a lock in /dev/shm that all
  // processes share. If a process died while it held the lock, or uses another
  // glibc, rsmi_init waits 5 seconds and fails. We only read, so a lock within
  // this process is enough.
  setenv("RSMI_MUTEX_THREAD_ONLY", "1", /*overwrite=*/0);
  const QuietStderr quiet(kInitTalksMax);
  if (const int code = init(0)) return Failed("rsmi_init", code);
  return {};
}

Result<std::vector<RocmSmi::Id>> RocmSmi::Devices() const {
  std::uint32_t there = 0;
  if (const int code = count(&there)) return Failed("rsmi_num_monitor_devices", code);
  std::vector<Id> ids(there);
  std::iota(ids.begin(), ids.end(), Id{0});
  return ids;
}

// The high 32 bits are the domain; bits 28 to 31 may hold the number of a partition.
Result<std::string> RocmSmi::PciOf(Id id) const {
  std::uint64_t pci = 0;
  if (const int code = pci_id(id, &pci)) return Failed("rsmi_dev_pci_id_get", code);
  return SmiPci(pci >> 32, pci);
}

void RocmSmi::Describe(Id id, Found* found) const {
  std::uint64_t unique = 0;
  if (unique_id != nullptr && unique_id(id, &unique) == 0 && unique != 0) {
    found->uuid = fmt::format("GPU-{:016x}", unique);  // As in ROCm's runtime.
  }
  std::array<char, 128> label{};
  if (device_name != nullptr && device_name(id, label.data(), label.size() - 1) == 0 &&
      label.front() != 0) {
    found->label = label.data();
  }
}

}  // namespace

const SourceKind& RocmSmiKind() {
  static const SmiKind<RocmSmi> kKind("rocm-smi", "AMD's older management library (ROCm SMI)",
                                      &Machine::rocm_smi);
  return kKind;
}

}  // namespace spillway
