// SPDX-License-Identifier: Apache-2.0
// A fake of NVIDIA's compute driver, as far as memory can be asked for. As in
// the real one, a card in MIG mode is replaced by its instances.
// FAKE_WITHOUT_MEMORY and FAKE_WITHOUT_UUID_V2 leave these functions out.
#include <atomic>
#include <cctype>
#include <vector>

#include "fakes/script.h"

namespace {

constexpr int kInvalidValue = 1;
constexpr int kNotInitialized = 3;
constexpr int kDeviceUnavailable = 46;
constexpr int kInvalidDevice = 101;
constexpr int kInvalidContext = 201;

struct Uuid {
  unsigned char bytes[16];
};

struct Target {
  const fakes::Card* card = nullptr;
  const fakes::Instance* instance = nullptr;
};

// The contexts current on this thread, as device number + 1.
thread_local std::vector<std::size_t> current;
std::atomic<bool> initialised = false;  // Only ever becomes true.

std::vector<Target> Devices(const fakes::Script& script) {
  std::vector<Target> devices;
  for (const fakes::Card& card : script.cards) {
    if (card.instances.empty()) devices.push_back({&card, nullptr});
    for (const std::optional<fakes::Instance>& instance : card.instances) {
      if (instance) devices.push_back({&card, &*instance});
    }
  }
  return devices;
}

int Resolve(int device, const fakes::Script& script, Target* target) {
  if (!initialised) return kNotInitialized;
  const std::vector<Target> devices = Devices(script);
  if (device < 0 || static_cast<std::size_t>(device) >= devices.size()) return kInvalidDevice;
  if (script.lost) return kDeviceUnavailable;
  *target = devices[static_cast<std::size_t>(device)];
  return 0;
}

// The hexadecimal digits after the first dash, as bytes.
Uuid Bytes(const std::string& text) {
  Uuid uuid{};
  std::size_t digits = 0;
  for (std::size_t at = text.find('-'); at < text.size(); ++at) {
    if (std::isxdigit(static_cast<unsigned char>(text[at])) == 0 || digits == 32) continue;
    const auto digit = std::stoul(text.substr(at, 1), nullptr, 16);
    unsigned char& byte = uuid.bytes[digits++ / 2];
    byte = static_cast<unsigned char>(byte * 16 + digit);
  }
  return uuid;
}

}  // namespace

FAKE_API int cuInit(unsigned flags) {
  FAKE_ENTER();
  if (flags != 0) return kInvalidValue;
  initialised = true;
  return 0;
}

FAKE_API int cuGetErrorString(int code, const char** words) {
  *words = fakes::WordsFor(code);
  return 0;
}

FAKE_API int cuDeviceGetCount(int* count) {
  FAKE_ENTER();
  *count = static_cast<int>(Devices(*fakes::Now()).size());
  return 0;
}

FAKE_API int cuDeviceGet(int* device, int ordinal) {
  FAKE_ENTER();
  *device = ordinal;
  return 0;
}

FAKE_API int cuDeviceGetPCIBusId(char* text, int length, int device) {
  FAKE_ENTER();
  const auto script = fakes::Now();
  Target target;
  if (const int code = Resolve(device, *script, &target)) return code;
  const fakes::Pci& pci = target.card->pci;
  std::snprintf(text, static_cast<std::size_t>(length), "%04X:%02X:%02X.%X", pci.domain, pci.bus,
                pci.device, pci.function);
  return 0;
}

#ifndef FAKE_WITHOUT_UUID_V2
FAKE_API int cuDeviceGetUuid_v2(void* uuid, int device) {
  FAKE_ENTER();
  const auto script = fakes::Now();
  Target target;
  if (const int code = Resolve(device, *script, &target)) return code;
  *static_cast<Uuid*>(uuid) =
      Bytes(target.instance != nullptr ? target.instance->uuid : target.card->uuid);
  return 0;
}
#endif

FAKE_API int cuDeviceGetUuid(void* uuid, int device) {
  FAKE_ENTER();
  const auto script = fakes::Now();
  Target target;
  if (const int code = Resolve(device, *script, &target)) return code;
  *static_cast<Uuid*>(uuid) = Bytes(target.card->uuid);
  return 0;
}

FAKE_API int cuDeviceGetName(char* name, int length, int device) {
  FAKE_ENTER();
  const auto script = fakes::Now();
  Target target;
  if (const int code = Resolve(device, *script, &target)) return code;
  fakes::Put(target.card->name, name, static_cast<std::size_t>(length));
  return 0;
}

// The context of device n is n + 1.
FAKE_API int cuDevicePrimaryCtxRetain(void** context, int device) {
  FAKE_ENTER();
  Target target;
  if (const int code = Resolve(device, *fakes::Now(), &target)) return code;
  *context = reinterpret_cast<void*>(static_cast<std::size_t>(device) + 1);
  fakes::AddUser(+1);
  return 0;
}

FAKE_API int cuDevicePrimaryCtxRelease_v2(int device) {
  FAKE_ENTER();
  if (device < 0) return kInvalidDevice;
  if (fakes::users() == 0) return kInvalidContext;
  fakes::AddUser(-1);
  return 0;
}

FAKE_API int cuCtxPushCurrent_v2(void* context) {
  FAKE_ENTER();
  if (context == nullptr || fakes::users() == 0) return kInvalidContext;
  current.push_back(reinterpret_cast<std::size_t>(context));
  return 0;
}

FAKE_API int cuCtxPopCurrent_v2(void** context) {
  FAKE_ENTER();
  if (current.empty()) return kInvalidContext;
  *context = reinterpret_cast<void*>(current.back());
  current.pop_back();
  return 0;
}

#ifndef FAKE_WITHOUT_MEMORY
FAKE_API int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  FAKE_ENTER();
  if (current.empty()) return kInvalidContext;
  const auto script = fakes::Now();
  Target target;
  if (const int code = Resolve(static_cast<int>(current.back()) - 1, *script, &target)) return code;
  const fakes::Figures figures =
      fakes::Answer(target.instance != nullptr ? target.instance->figures : target.card->figures);
  *free = figures.free;
  *total = figures.total;
  return 0;
}
#endif

// How many contexts are current on the calling thread.
FAKE_API int spillway_fake_current() { return static_cast<int>(current.size()); }
