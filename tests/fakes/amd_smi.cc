// SPDX-License-Identifier: Apache-2.0
// A fake of AMD SMI: one socket per card. Like the real one it does not count
// its users: one shutdown ends it for all. FAKE_WITHOUT_USAGE leaves that
// function out.
#include <cstdio>

#include "fakes/script.h"

namespace {

constexpr int kInvalid = 1;
constexpr int kNotFound = 31;
constexpr int kNotInitialized = 32;
constexpr int kInsufficientSize = 41;

int Resolve(void* handle, fakes::Card* into) {
  if (fakes::users() == 0) return kNotInitialized;
  const std::string uuid = fakes::UuidOf(handle);
  if (uuid.empty()) return kInvalid;
  const auto script = fakes::Now();
  for (const fakes::Card& card : script->cards) {
    if (card.uuid != uuid || script->lost) continue;
    *into = card;
    return 0;
  }
  return kNotFound;
}

int Memory(void* handle, int type, std::uint64_t* bytes, bool used) {
  fakes::Card card;
  if (const int code = Resolve(handle, &card)) return code;
  if (type != 0 || *bytes != 0) return kInvalid;
  *bytes = used ? *fakes::Answer(card.figures).used : card.figures.total;
  return 0;
}

}  // namespace

FAKE_API int amdsmi_init(std::uint64_t flags) {
  // As the real one does, not only where it fails.
  std::fputs("Exception caught: amdsmi_init.\n", stderr);
  FAKE_ENTER();
  if (flags != 2) return kInvalid;
  if (fakes::users() == 0) fakes::AddUser(+1);
  return 0;
}

FAKE_API int amdsmi_shut_down() {
  FAKE_ENTER();
  if (fakes::users() == 0) return kNotInitialized;
  fakes::AddUser(-1);
  return 0;
}

FAKE_API int amdsmi_status_code_to_string(int code, const char** words) {
  *words = fakes::WordsFor(code);
  return 0;
}

FAKE_API int amdsmi_get_socket_handles(std::uint32_t* count, void** handles) {
  FAKE_ENTER();
  if (fakes::users() == 0) return kNotInitialized;
  const auto script = fakes::Now();
  const auto there = static_cast<std::uint32_t>(script->cards.size());
  for (std::uint32_t at = 0; handles != nullptr && at < there && at < *count; ++at) {
    handles[at] = fakes::HandleOf(script->cards[at].uuid);
  }
  *count = there;
  return 0;
}

FAKE_API int amdsmi_get_processor_handles(void* socket, std::uint32_t* count, void** handles) {
  FAKE_ENTER();
  const std::string uuid = fakes::UuidOf(socket);
  if (uuid.empty()) return kInvalid;
  if (handles != nullptr && *count < 1) return kInsufficientSize;
  if (handles != nullptr) handles[0] = fakes::HandleOf(uuid);
  *count = 1;
  return 0;
}

FAKE_API int amdsmi_get_processor_type(void* handle, int* type) {
  FAKE_ENTER();
  fakes::Card card;
  if (const int code = Resolve(handle, &card)) return code;
  *type = card.other ? 2 : 1;
  return 0;
}

FAKE_API int amdsmi_get_gpu_memory_total(void* handle, int type, std::uint64_t* bytes) {
  FAKE_ENTER();
  return Memory(handle, type, bytes, false);
}

#ifndef FAKE_WITHOUT_USAGE
FAKE_API int amdsmi_get_gpu_memory_usage(void* handle, int type, std::uint64_t* bytes) {
  FAKE_ENTER();
  return Memory(handle, type, bytes, true);
}
#endif

FAKE_API int amdsmi_get_gpu_device_bdf(void* handle, std::uint64_t* id) {
  FAKE_ENTER();
  fakes::Card card;
  if (const int code = Resolve(handle, &card)) return code;
  *id = std::uint64_t{card.pci.domain} << 16 | card.pci.bus << 8 | card.pci.device << 3 |
        card.pci.function;
  return 0;
}

FAKE_API int amdsmi_get_gpu_device_uuid(void* handle, unsigned* length, char* uuid) {
  FAKE_ENTER();
  fakes::Card card;
  if (const int code = Resolve(handle, &card)) return code;
  if (*length < 38) return kInvalid;
  fakes::Put(card.uuid, uuid, *length);
  return 0;
}
