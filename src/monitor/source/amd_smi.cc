// SPDX-License-Identifier: Apache-2.0
// AMD's newer management library. Its layouts change with each major release;
// the few functions used here take plain numbers and have not changed since 24.
#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/quiet_stderr.h"
#include "base/symbols.h"
#include "monitor/source/smi.h"

namespace spillway {

namespace {

struct AmdSmi {
  using Id = void*;
  static constexpr const char* kTotalCall = "amdsmi_get_gpu_memory_total";
  static constexpr const char* kUsageCall = "amdsmi_get_gpu_memory_usage";

  int (*init)(std::uint64_t) = nullptr;
  int (*shut_down)() = nullptr;
  int (*sockets)(std::uint32_t*, void**) = nullptr;
  int (*processors)(void*, std::uint32_t*, Id*) = nullptr;
  int (*processor_type)(Id, int*) = nullptr;
  int (*memory_total)(Id, int, std::uint64_t*) = nullptr;
  int (*memory_usage)(Id, int, std::uint64_t*) = nullptr;
  int (*bdf)(Id, std::uint64_t*) = nullptr;
  int (*uuid)(Id, unsigned*, char*) = nullptr;
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
  Status AddGpus(void* package, std::vector<Id>* gpus) const;
  Result<std::string> PciOf(Id id) const;
  void Describe(Id id, Found* found) const;
};

// Errors after which the library still works. After all other codes, such as 14
// (a file), 31 (not found) or 32 (not initialised), it is initialised again.
bool AmdSmi::KeepsState(int code) {
  switch (code) {
    case 2:   // Not supported.
    case 3:   // Not implemented yet.
    case 8:   // Timeout.
    case 10:  // No permission.
    case 30:  // Busy.
      return true;
    default:
      return false;
  }
}

Status AmdSmi::Bind(const Library& library) {
  Symbols symbols(library);
  symbols.Need("amdsmi_init", &init);
  symbols.Need("amdsmi_shut_down", &shut_down);
  symbols.Need("amdsmi_get_socket_handles", &sockets);
  symbols.Need("amdsmi_get_processor_handles", &processors);
  symbols.Need("amdsmi_get_processor_type", &processor_type);
  symbols.Need(kTotalCall, &memory_total);
  symbols.Need(kUsageCall, &memory_usage);
  symbols.Need("amdsmi_get_gpu_device_bdf", &bdf);
  symbols.May("amdsmi_get_gpu_device_uuid", &uuid);
  symbols.May("amdsmi_status_code_to_string", &status_string);
  return symbols.Done();
}

Status AmdSmi::Start() const {
  constexpr std::uint64_t kGpus = std::uint64_t{1} << 1;  // What to initialise.
  const QuietStderr quiet(kInitTalksMax);
  if (const int code = init(kGpus)) return Failed("amdsmi_init", code);
  return {};
}

// Each list is read twice: first its length, then its items.
Result<std::vector<AmdSmi::Id>> AmdSmi::Devices() const {
  std::uint32_t count = 0;
  int code = sockets(&count, nullptr);
  std::vector<void*> packages(count);
  if (code == 0) code = sockets(&count, packages.data());
  if (code != 0) return Failed("amdsmi_get_socket_handles", code);
  packages.resize(std::min<std::size_t>(count, packages.size()));
  std::vector<Id> gpus;
  for (void* package : packages) {
    if (const Status added = AddGpus(package, &gpus); !added) return added.error();
  }
  return gpus;
}

Status AmdSmi::AddGpus(void* package, std::vector<Id>* gpus) const {
  std::uint32_t count = 0;
  int code = processors(package, &count, nullptr);
  std::vector<Id> parts(count);
  if (code == 0) code = processors(package, &count, parts.data());
  if (code != 0) return Failed("amdsmi_get_processor_handles", code);
  parts.resize(std::min<std::size_t>(count, parts.size()));
  for (Id part : parts) {
    constexpr int kGpu = 1;
    int type = 0;
    code = processor_type(part, &type);
    if (code != 0) return Failed("amdsmi_get_processor_type", code);
    if (type == kGpu) gpus->push_back(part);
  }
  return {};
}

// All bits above the 16 of bus, device and function are the domain.
Result<std::string> AmdSmi::PciOf(Id id) const {
  std::uint64_t pci = 0;
  if (const int code = bdf(id, &pci)) return Failed("amdsmi_get_gpu_device_bdf", code);
  return SmiPci(pci >> 16, pci);
}

void AmdSmi::Describe(Id id, Found* found) const {
  std::array<char, 64> text{};
  unsigned length = 38;  // The library's own constant for the size of a UUID.
  if (uuid != nullptr && uuid(id, &length, text.data()) == 0) found->uuid = text.data();
}

}  // namespace

const SourceKind& AmdSmiKind() {
  static const SmiKind<AmdSmi> kKind("amd-smi", "AMD's management library (AMD SMI)",
                                     &Machine::amd_smi);
  return kKind;
}

}  // namespace spillway
