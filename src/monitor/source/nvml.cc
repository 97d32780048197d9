// SPDX-License-Identifier: Apache-2.0
// NVIDIA's management library. It needs no context and takes no memory of the
// card, and a reading takes about 12 microseconds.
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/driver_error.h"
#include "base/library.h"
#include "base/symbols.h"
#include "monitor/source/driver.h"
#include "monitor/source/session.h"

namespace spillway {

namespace {

// The library's own layouts; their sizes are part of its ABI.
struct MemoryV1 {
  unsigned long long total, free, used;
};
struct MemoryV2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
static_assert(sizeof(MemoryV1) == 24 && sizeof(MemoryV2) == 40);
// sizeof | 2 << 24. A plain 2 returns 13, as if the function was missing.
constexpr unsigned kMemoryV2 = 0x02000028;

struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];  // "00000000:1B:00.0"
};
static_assert(sizeof(PciInfo) == 68);

using Handle = void*;

constexpr int kNotSupported = 3;
constexpr int kNotFound = 6;
constexpr int kFunctionNotFound = 13;
constexpr int kVersionMismatch = 25;

// Errors after which library and handle still work. After all other codes, also
// unknown ones, a new start may help: 1 not initialised, 15 lost, 16 to be
// reset, 17 blocked by the system, 18 driver replaced, 999 a container that
// lost its devices.
bool KeepsState(int code) {
  switch (code) {
    case kNotSupported:
    case 4:   // No permission.
    case 7:   // Insufficient size.
    case 10:  // Timeout.
    case kFunctionNotFound:
    case 20:  // No memory.
    case 21:  // No data.
    case 23:  // Insufficient resources.
    case kVersionMismatch:
      return true;
    default:
      return false;
  }
}

// The library, bound and initialised. Structs are passed as void*, so that both
// sides of the call have one type, as clang's -fsanitize=function requires.
struct Nvml {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*by_index)(unsigned, Handle*) = nullptr;
  int (*by_pci)(const char*, Handle*) = nullptr;
  int (*by_uuid)(const char*, Handle*) = nullptr;
  int (*pci_info)(Handle, void*) = nullptr;
  int (*uuid)(Handle, char*, unsigned) = nullptr;
  int (*device_name)(Handle, char*, unsigned) = nullptr;
  int (*memory_v2)(Handle, void*) = nullptr;
  int (*memory_v1)(Handle, void*) = nullptr;
  int (*mig_mode)(Handle, unsigned*, unsigned*) = nullptr;
  int (*mig_most)(Handle, unsigned*) = nullptr;
  int (*mig_by_index)(Handle, unsigned, Handle*) = nullptr;
  std::unique_ptr<Session> session;

  Status Bind(const Library& library);
  Status Start() const {
    if (const int code = init()) return Failed("nvmlInit_v2", code);
    return {};
  }
  std::function<void()> Stop() const {
    return [stop = shutdown] { stop(); };
  }
  Error Failed(std::string_view call, int code) const {
    return DriverError(call, code, error_string == nullptr ? nullptr : error_string(code));
  }
};

Status Nvml::Bind(const Library& library) {
  Symbols symbols(library);
  symbols.Need("nvmlInit_v2", &init);
  symbols.Need("nvmlShutdown", &shutdown);
  symbols.Need("nvmlDeviceGetCount_v2", &count);
  symbols.Need("nvmlDeviceGetHandleByIndex_v2", &by_index);
  symbols.Need("nvmlDeviceGetHandleByPciBusId_v2", &by_pci);
  symbols.Need("nvmlDeviceGetHandleByUUID", &by_uuid);
  symbols.Need("nvmlDeviceGetPciInfo_v3", &pci_info);
  symbols.Need("nvmlDeviceGetUUID", &uuid);
  symbols.May("nvmlErrorString", &error_string);
  symbols.May("nvmlDeviceGetName", &device_name);
  // Drivers before R510 have only the first version.
  symbols.May("nvmlDeviceGetMemoryInfo_v2", &memory_v2);
  symbols.May("nvmlDeviceGetMemoryInfo", &memory_v1);
  if (memory_v2 == nullptr) symbols.Need("nvmlDeviceGetMemoryInfo", &memory_v1);
  // Drivers before R450 have no instances.
  symbols.May("nvmlDeviceGetMigMode", &mig_mode);
  symbols.May("nvmlDeviceGetMaxMigDeviceCount", &mig_most);
  symbols.May("nvmlDeviceGetMigDeviceHandleByIndex", &mig_by_index);
  return symbols.Done();
}

class NvmlDevice : public DriverDevice {
 public:
  NvmlDevice(Nvml nvml, Handle handle, Scope scope)
      : nvml_(std::move(nvml)),
        handle_(handle),
        scope_(scope),
        asks_v2_(nvml_.memory_v2 != nullptr) {}

  Result<Reading> Ask(bool* gone) override {
    Reading reading{.scope = scope_};
    std::string_view call;
    const int code = AskEither(&reading, &call);
    if (code == kNotSupported || (code == 0 && reading.total == 0)) {
      return Error{Code::kUnavailable,
                   fmt::format("{}: the device shares host memory; use source \"host\" instead",
                               code == 0 ? fmt::format("{} reports a total of 0", call)
                                         : nvml_.Failed(call, code).message)};
    }
    if (code == 0) return reading;
    *gone = !KeepsState(code);
    return nvml_.Failed(call, code);
  }

 private:
  // The second version reports the memory that the driver reserves; the first
  // counts it as used.
  int AskEither(Reading* reading, std::string_view* call) {
    int code = kFunctionNotFound;
    if (asks_v2_) {
      *call = "nvmlDeviceGetMemoryInfo_v2";
      MemoryV2 memory{.version = kMemoryV2, .total = 0, .reserved = 0, .free = 0, .used = 0};
      code = nvml_.memory_v2(handle_, &memory);
      reading->total = memory.total;
      reading->free = memory.free;
      reading->reserved = memory.reserved;
    }
    const bool unknown = code == kFunctionNotFound || code == kVersionMismatch;
    if (!unknown || nvml_.memory_v1 == nullptr) return code;
    *call = "nvmlDeviceGetMemoryInfo";
    MemoryV1 memory{};
    code = nvml_.memory_v1(handle_, &memory);
    reading->total = memory.total;
    reading->free = memory.free;
    reading->reserved.reset();
    if (code == 0) asks_v2_ = false;  // It would fail each time.
    return code;
  }

  const Nvml nvml_;
  const Handle handle_;
  const Scope scope_;
  bool asks_v2_;
};

// Returns the text that `ask` (a UUID, a name) gives for a device; empty: none.
std::string TextOf(int (*ask)(Handle, char*, unsigned), Handle handle) {
  std::array<char, 96> text{};
  if (ask == nullptr || ask(handle, text.data(), text.size()) != 0) return {};
  text.back() = 0;
  return text.data();
}

// Lists the instances of a card in MIG mode. The card itself is left out: its
// values are their sum, and reading them needs privileges.
void ListInstances(const Nvml& nvml, Handle card, const std::string& pci, Sighting* sighting) {
  unsigned most = 0;
  if (const int code = nvml.mig_most(card, &most)) {
    AddReason(pci + ": " + nvml.Failed("nvmlDeviceGetMaxMigDeviceCount", code).message, sighting);
    return;
  }
  const std::size_t before = sighting->found.size();
  for (unsigned index = 0; index < most; ++index) {
    Handle instance = nullptr;
    const int code = nvml.mig_by_index(card, index, &instance);
    if (code == kNotFound) continue;  // Indices have holes.
    const std::string uuid = code == 0 ? TextOf(nvml.uuid, instance) : std::string();
    if (uuid.empty()) {
      AddReason(code == 0
                    ? fmt::format("{}: MIG instance {} has no UUID", pci, index)
                    : fmt::format("{}: MIG instance {}: {}", pci, index,
                                  nvml.Failed("nvmlDeviceGetMigDeviceHandleByIndex", code).message),
                sighting);
      continue;
    }
    const std::string label = TextOf(nvml.device_name, instance);
    sighting->found.push_back({uuid, uuid, fmt::format("{} on {}", label, pci), Scope::kInstance});
  }
  if (sighting->found.size() == before)
    AddReason(pci + " is in MIG mode, without instances", sighting);
}

void ListCard(const Nvml& nvml, unsigned index, Sighting* sighting) {
  Handle card = nullptr;
  // The count includes cards that this process may not open.
  if (const int code = nvml.by_index(index, &card)) {
    AddReason(fmt::format("device {}: {}", index,
                          nvml.Failed("nvmlDeviceGetHandleByIndex_v2", code).message),
              sighting);
    return;
  }
  PciInfo info{};
  const int code = nvml.pci_info(card, &info);
  info.bus_id[sizeof info.bus_id - 1] = 0;
  const std::string pci = code == 0 ? CanonicalPci(info.bus_id) : std::string();
  if (pci.empty()) {
    AddReason(code == 0 ? fmt::format("device {} has no PCI id", index)
                        : fmt::format("device {}: {}", index,
                                      nvml.Failed("nvmlDeviceGetPciInfo_v3", code).message),
              sighting);
    return;
  }
  unsigned mig = 0;
  unsigned mig_pending = 0;
  // Cards without MIG return 3, not supported.
  const bool has_mig = nvml.mig_mode != nullptr && nvml.mig_most != nullptr &&
                       nvml.mig_by_index != nullptr &&
                       nvml.mig_mode(card, &mig, &mig_pending) == 0 && mig == 1;
  if (has_mig) return ListInstances(nvml, card, pci, sighting);
  sighting->found.push_back(
      {pci, TextOf(nvml.uuid, card), TextOf(nvml.device_name, card), Scope::kCard});
}

class Kind : public DriverKind {
 public:
  std::string_view name() const override { return "nvml"; }
  std::string_view what() const override { return "NVIDIA's management library (NVML)"; }

  Result<Sighting> List(const Machine& machine) const override {
    const Result<Nvml> nvml = LoadAndBegin<Nvml>(machine.nvml);
    if (!nvml) return nvml.error();
    unsigned count = 0;
    if (const int code = nvml->count(&count)) return nvml->Failed("nvmlDeviceGetCount_v2", code);
    Sighting sighting;
    for (unsigned index = 0; index < count; ++index) ListCard(*nvml, index, &sighting);
    return sighting;
  }

  Result<std::unique_ptr<DriverDevice>> Find(const Machine& machine,
                                             const Found& wanted) const override {
    Result<Nvml> nvml = LoadAndBegin<Nvml>(machine.nvml);
    if (!nvml) return nvml.error();
    const bool instance = wanted.scope == Scope::kInstance;
    Handle handle = nullptr;
    const int code = instance ? nvml->by_uuid(wanted.uuid.c_str(), &handle)
                              : nvml->by_pci(wanted.device.c_str(), &handle);
    if (code != 0) {
      return nvml->Failed(
          instance ? "nvmlDeviceGetHandleByUUID" : "nvmlDeviceGetHandleByPciBusId_v2", code);
    }
    return std::unique_ptr<DriverDevice>(
        std::make_unique<NvmlDevice>(*std::move(nvml), handle, wanted.scope));
  }
};

}  // namespace

const SourceKind& NvmlKind() {
  static const Kind kKind;
  return kKind;
}

}  // namespace spillway
