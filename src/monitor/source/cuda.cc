// SPDX-License-Identifier: Apache-2.0
// NVIDIA's compute driver, asked for its free memory. That needs a context, and
// a context takes hundreds of megabytes of the card. So this kind is for
// programs that hold a context anyway, and is used only if it is named
// explicitly. Listing devices needs no context and creates none.
#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/driver_error.h"
#include "base/library.h"
#include "base/symbols.h"
#include "monitor/source/driver.h"

namespace spillway {

namespace {

using Context = void*;
using Uuid = std::array<unsigned char, 16>;

// Errors after which the context still works. All other codes (4 deinitialised,
// 46 and 100 no device, 201 no context, 700 and 719 a failed kernel, ...) are
// sticky or fatal: only a new context may help.
bool KeepsState(int code) {
  switch (code) {
    case 2:    // No memory.
    case 600:  // Not ready.
    case 800:  // Not permitted.
    case 801:  // Not supported.
      return true;
    default:
      return false;
  }
}

// The library, bound and initialised. It cannot be shut down.
struct Cuda {
  int (*init)(unsigned) = nullptr;
  int (*count)(int*) = nullptr;
  int (*device_get)(int*, int) = nullptr;
  int (*pci_bus_id)(char*, int, int) = nullptr;
  int (*uuid_v2)(void*, int) = nullptr;  // 16 bytes each.
  int (*uuid_v1)(void*, int) = nullptr;
  int (*device_name)(char*, int, int) = nullptr;
  int (*retain)(Context*, int) = nullptr;
  int (*release)(int) = nullptr;
  int (*push)(Context) = nullptr;
  int (*pop)(Context*) = nullptr;
  int (*memory)(std::size_t*, std::size_t*) = nullptr;
  int (*error_string)(int, const char**) = nullptr;

  static Result<Cuda> Load(const Machine& machine);
  Status Bind(const Library& library);
  Error Failed(std::string_view call, int code) const {
    const char* words = nullptr;
    if (error_string != nullptr && error_string(code, &words) != 0) words = nullptr;
    return DriverError(call, code, words);
  }
};

Status Cuda::Bind(const Library& library) {
  // Exactly these names: cuMemGetInfo without the suffix is the 32-bit version.
  Symbols symbols(library);
  symbols.Need("cuInit", &init);
  symbols.Need("cuDeviceGetCount", &count);
  symbols.Need("cuDeviceGet", &device_get);
  symbols.Need("cuDeviceGetPCIBusId", &pci_bus_id);
  symbols.Need("cuDevicePrimaryCtxRetain", &retain);
  symbols.Need("cuCtxPushCurrent_v2", &push);
  symbols.Need("cuCtxPopCurrent_v2", &pop);
  symbols.Need("cuMemGetInfo_v2", &memory);
  symbols.May("cuDevicePrimaryCtxRelease_v2", &release);
  if (release == nullptr) symbols.Need("cuDevicePrimaryCtxRelease", &release);  // Before 11.0.
  symbols.May("cuDeviceGetUuid_v2", &uuid_v2);                                  // Since 11.4.
  symbols.May("cuDeviceGetUuid", &uuid_v1);
  symbols.May("cuDeviceGetName", &device_name);
  symbols.May("cuGetErrorString", &error_string);
  return symbols.Done();
}

Result<Cuda> Cuda::Load(const Machine& machine) {
  const Result<Library> library = Library::Open(machine.cuda);
  if (!library) return library.error();
  Cuda cuda;
  if (const Status bound = cuda.Bind(*library); !bound) return bound.error();
  if (const int code = cuda.init(0)) return cuda.Failed("cuInit", code);
  return cuda;
}

class CudaDevice : public DriverDevice {
 public:
  // Takes over one reference to the device's primary context.
  CudaDevice(const Cuda& cuda, int device, Context context, Scope scope)
      : cuda_(cuda), device_(device), context_(context), scope_(scope) {}
  // While the process exits the driver may be unloaded already and return an
  // error, which does not matter here.
  ~CudaDevice() override { cuda_.release(device_); }
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  // Afterwards the calling thread's earlier context is current again.
  Result<Reading> Ask(bool* gone) override {
    const auto failed = [&](std::string_view call, int code) {
      *gone = !KeepsState(code);
      return cuda_.Failed(call, code);
    };
    if (const int code = cuda_.push(context_)) return failed("cuCtxPushCurrent_v2", code);
    std::size_t free = 0;
    std::size_t total = 0;
    const int asked = cuda_.memory(&free, &total);
    Context popped = nullptr;
    const int left = cuda_.pop(&popped);
    if (asked != 0) return failed("cuMemGetInfo_v2", asked);
    if (left != 0) return failed("cuCtxPopCurrent_v2", left);
    return Reading{.total = total, .free = free, .scope = scope_};
  }

 private:
  const Cuda cuda_;
  const int device_;
  const Context context_;
  const Scope scope_;
};

// "GPU-01234567-89ab-cdef-0123-456789abcdef", as in NVML.
std::string Spelled(std::string_view prefix, const Uuid& uuid) {
  std::string text(prefix);
  for (std::size_t at = 0; at < uuid.size(); ++at) {
    if (at == 4 || at == 6 || at == 8 || at == 10) text += '-';
    text += fmt::format("{:02x}", uuid[at]);
  }
  return text;
}

// Describes the device, or returns why that is not possible.
Result<Found> Describe(const Cuda& cuda, int device) {
  std::array<char, 64> pci{};
  if (const int code = cuda.pci_bus_id(pci.data(), static_cast<int>(pci.size()) - 1, device)) {
    return cuda.Failed("cuDeviceGetPCIBusId", code);
  }
  Found found{.device = CanonicalPci(pci.data()), .uuid = {}, .label = {}, .scope = Scope::kCard};
  if (found.device.empty()) return Error{Code::kUnavailable, "it has no PCI id"};
  std::array<char, 128> label{};
  if (cuda.device_name != nullptr &&
      cuda.device_name(label.data(), static_cast<int>(label.size()) - 1, device) == 0) {
    found.label = label.data();
  }
  Uuid card{};
  Uuid own{};
  const bool card_known = cuda.uuid_v1 != nullptr && cuda.uuid_v1(&card, device) == 0;
  const bool own_known = cuda.uuid_v2 != nullptr && cuda.uuid_v2(&own, device) == 0;
  // For a MIG instance the first version returns the card's UUID, the second its own.
  if (card_known && own_known && card != own) {
    found.uuid = Spelled("MIG-", own);
    found.label += " on " + found.device;
    found.device = found.uuid;
    found.scope = Scope::kInstance;
  } else if (card_known || own_known) {
    found.uuid = Spelled("GPU-", own_known ? own : card);
  }
  return found;
}

class Kind : public DriverKind {
 public:
  bool for_gpus() const override { return false; }  // Its context takes memory.
  std::string_view name() const override { return "cuda"; }
  std::string_view what() const override {
    return "NVIDIA's compute driver (holds a context, which costs memory of the card)";
  }

  Result<Sighting> List(const Machine& machine) const override {
    const Result<Cuda> cuda = Cuda::Load(machine);
    if (!cuda) return cuda.error();
    Sighting sighting;
    const Status listed = Each(*cuda, [&](int ordinal, int, const Result<Found>& found) {
      if (found) sighting.found.push_back(*found);
      if (!found) {
        AddReason(fmt::format("device {}: {}", ordinal, found.error().message), &sighting);
      }
    });
    if (!listed) return listed.error();
    return sighting;
  }

  Result<std::unique_ptr<DriverDevice>> Find(const Machine& machine,
                                             const Found& wanted) const override {
    const Result<Cuda> cuda = Cuda::Load(machine);
    if (!cuda) return cuda.error();
    int device = -1;
    std::string why = "the driver does not list it any more";
    const Status listed = Each(*cuda, [&](int, int each, const Result<Found>& found) {
      if (found && found->device == wanted.device) device = each;
      if (!found) why = found.error().message;
    });
    if (!listed) return listed.error();
    if (device < 0) return Error{Code::kUnavailable, why};
    Context context = nullptr;
    if (const int code = cuda->retain(&context, device)) {
      return cuda->Failed("cuDevicePrimaryCtxRetain", code);
    }
    return std::unique_ptr<DriverDevice>(
        std::make_unique<CudaDevice>(*cuda, device, context, wanted.scope));
  }

 private:
  // Calls `see(ordinal, device, description)` for each device.
  template <typename See>
  static Status Each(const Cuda& cuda, const See& see) {
    int count = 0;
    if (const int code = cuda.count(&count)) return cuda.Failed("cuDeviceGetCount", code);
    for (int ordinal = 0; ordinal < count; ++ordinal) {
      int device = 0;
      const int code = cuda.device_get(&device, ordinal);
      see(ordinal, device,
          code == 0 ? Describe(cuda, device) : Result<Found>(cuda.Failed("cuDeviceGet", code)));
    }
    return {};
  }
};

}  // namespace

const SourceKind& CudaKind() {
  static const Kind kKind;
  return kKind;
}

}  // namespace spillway
