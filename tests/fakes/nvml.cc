// SPDX-License-Identifier: Apache-2.0
// A fake of NVIDIA's management library. FAKE_WITHOUT_INIT and
// FAKE_WITHOUT_MEMORY_V2 leave these functions out.
#include <cstring>

#include "fakes/script.h"

namespace {

constexpr int kUninitialized = 1;
constexpr int kInvalidArgument = 2;
constexpr int kNotSupported = 3;
constexpr int kNoPermission = 4;
constexpr int kNotFound = 6;
[[maybe_unused]] constexpr int kFunctionNotFound = 13;
constexpr int kLost = 15;

struct MemoryV1 {
  unsigned long long total, free, used;
};
struct MemoryV2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};

// A card, or an instance of one, that a handle names.
struct Target {
  const fakes::Card* card = nullptr;
  const fakes::Instance* instance = nullptr;
  std::shared_ptr<const fakes::Script> script;  // Keeps both alive.

  const std::string& uuid() const { return instance != nullptr ? instance->uuid : card->uuid; }
  const fakes::Figures& figures() const {
    return instance != nullptr ? instance->figures : card->figures;
  }
};

Target FindUuid(const std::string& uuid) {
  Target target{.script = fakes::Now()};
  for (const fakes::Card& card : target.script->cards) {
    if (card.uuid == uuid) target.card = &card;
    for (const std::optional<fakes::Instance>& instance : card.instances) {
      if (!instance || instance->uuid != uuid) continue;
      target.card = &card;
      target.instance = &*instance;
    }
  }
  return target;
}

int Resolve(void* handle, Target* target) {
  if (fakes::users() == 0) return kUninitialized;
  const std::string uuid = fakes::UuidOf(handle);
  if (uuid.empty()) return kInvalidArgument;
  *target = FindUuid(uuid);
  if (target->card == nullptr || target->script->lost) return kLost;
  return 0;
}

int Give(const Target& target, void** handle) {
  if (target.card == nullptr) return kNotFound;
  if (target.card->denied) return kNoPermission;
  if (target.script->lost) return kLost;
  *handle = fakes::HandleOf(target.uuid());
  return 0;
}

}  // namespace

#ifndef FAKE_WITHOUT_INIT
FAKE_API int nvmlInit_v2() {
  FAKE_ENTER();
  fakes::AddUser(+1);
  return 0;
}
#endif

FAKE_API int nvmlShutdown() {
  FAKE_ENTER();
  if (fakes::users() == 0) return kUninitialized;
  fakes::AddUser(-1);
  return 0;
}

FAKE_API const char* nvmlErrorString(int code) { return fakes::WordsFor(code); }

FAKE_API int nvmlDeviceGetCount_v2(unsigned* count) {
  FAKE_ENTER();
  if (fakes::users() == 0) return kUninitialized;
  *count = static_cast<unsigned>(fakes::Now()->cards.size());
  return 0;
}

FAKE_API int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** handle) {
  FAKE_ENTER();
  if (fakes::users() == 0) return kUninitialized;
  const auto script = fakes::Now();
  if (index >= script->cards.size()) return kInvalidArgument;
  return Give({.card = &script->cards[index], .script = script}, handle);
}

FAKE_API int nvmlDeviceGetHandleByPciBusId_v2(const char* text, void** handle) {
  FAKE_ENTER();
  if (fakes::users() == 0) return kUninitialized;
  Target target{.script = fakes::Now()};
  for (const fakes::Card& card : target.script->cards) {
    if (fakes::ParsePci(text) == card.pci) target.card = &card;
  }
  return Give(target, handle);
}

FAKE_API int nvmlDeviceGetHandleByUUID(const char* uuid, void** handle) {
  FAKE_ENTER();
  if (fakes::users() == 0) return kUninitialized;
  return Give(FindUuid(uuid), handle);
}

FAKE_API int nvmlDeviceGetUUID(void* handle, char* uuid, unsigned length) {
  FAKE_ENTER();
  Target target;
  if (const int code = Resolve(handle, &target)) return code;
  fakes::Put(target.uuid(), uuid, length);
  return 0;
}

FAKE_API int nvmlDeviceGetName(void* handle, char* name, unsigned length) {
  FAKE_ENTER();
  Target target;
  if (const int code = Resolve(handle, &target)) return code;
  fakes::Put(target.card->name + (target.instance != nullptr ? " MIG" : ""), name, length);
  return 0;
}

FAKE_API int nvmlDeviceGetPciInfo_v3(void* handle, void* into) {
  FAKE_ENTER();
  Target target;
  if (const int code = Resolve(handle, &target)) return code;
  const fakes::Pci& pci = target.card->pci;
  auto* const info = static_cast<PciInfo*>(into);
  std::memset(info, 0, sizeof *info);
  std::snprintf(info->bus_id, sizeof info->bus_id, "%08X:%02X:%02X.0", pci.domain, pci.bus,
                pci.device);
  return 0;
}

#ifndef FAKE_WITHOUT_MEMORY_V2
FAKE_API int nvmlDeviceGetMemoryInfo_v2(void* handle, void* into) {
  FAKE_ENTER();
  Target target;
  if (const int code = Resolve(handle, &target)) return code;
  auto* const memory = static_cast<MemoryV2*>(into);
  if (target.script->wrong_size || memory->version != 0x02000028) return kFunctionNotFound;
  const fakes::Figures figures = fakes::Answer(target.figures());
  memory->total = figures.total;
  memory->reserved = figures.reserved;
  memory->free = figures.free;
  memory->used = *figures.used;
  return 0;
}
#endif

FAKE_API int nvmlDeviceGetMemoryInfo(void* handle, void* into) {
  FAKE_ENTER();
  Target target;
  if (const int code = Resolve(handle, &target)) return code;
  const fakes::Figures figures = fakes::Answer(target.figures());
  *static_cast<MemoryV1*>(into) = {figures.total, figures.free, *figures.used + figures.reserved};
  return 0;
}

FAKE_API int nvmlDeviceGetMigMode(void* handle, unsigned* current, unsigned* pending) {
  FAKE_ENTER();
  Target target;
  if (const int code = Resolve(handle, &target)) return code;
  if (target.card->instances.empty()) return kNotSupported;
  *current = *pending = 1;
  return 0;
}

FAKE_API int nvmlDeviceGetMaxMigDeviceCount(void* handle, unsigned* count) {
  FAKE_ENTER();
  Target target;
  if (const int code = Resolve(handle, &target)) return code;
  *count = static_cast<unsigned>(target.card->instances.size());
  return 0;
}

FAKE_API int nvmlDeviceGetMigDeviceHandleByIndex(void* handle, unsigned index, void** instance) {
  FAKE_ENTER();
  Target target;
  if (const int code = Resolve(handle, &target)) return code;
  if (index >= target.card->instances.size()) return kInvalidArgument;
  if (!target.card->instances[index]) return kNotFound;
  *instance = fakes::HandleOf(target.card->instances[index]->uuid);
  return 0;
}
