// SPDX-License-Identifier: Apache-2.0
// A fake of ROCm SMI. FAKE_WITHOUT_USAGE leaves that function out.
#include <cstdio>
#include <cstdlib>

#include "fakes/script.h"

namespace {

constexpr int kInvalidArgs = 1;
constexpr int kFileError = 3;
constexpr int kNotInitialized = 8;

int Resolve(std::uint32_t index, fakes::Card* card) {
  if (fakes::users() == 0) return kNotInitialized;
  const auto script = fakes::Now();
  if (index >= script->cards.size()) return kInvalidArgs;
  if (script->lost) return kFileError;
  *card = script->cards[index];
  return 0;
}

// As the real one does: reads the result's old contents first.
int Memory(std::uint32_t index, int type, std::uint64_t* bytes, bool used) {
  fakes::Card card;
  if (const int code = Resolve(index, &card)) return code;
  if (type != 0 || *bytes != 0) return kInvalidArgs;
  *bytes = used ? *fakes::Answer(card.figures).used : card.figures.total;
  return 0;
}

}  // namespace

FAKE_API int rsmi_init(std::uint64_t flags) {
  // As the real one does, not only where it fails.
  std::fputs("Exception caught: rsmi_init.\n", stderr);
  FAKE_ENTER();
  if (flags != 0) return kInvalidArgs;
  // As if a neighbour had died with the shared lock.
  if (std::getenv("RSMI_MUTEX_THREAD_ONLY") == nullptr) return kNotInitialized;
  fakes::AddUser(+1);
  return 0;
}

FAKE_API int rsmi_shut_down() {
  FAKE_ENTER();
  if (fakes::users() == 0) return kNotInitialized;
  fakes::AddUser(-1);
  return 0;
}

FAKE_API int rsmi_status_string(int code, const char** words) {
  *words = fakes::WordsFor(code);
  return 0;
}

FAKE_API int rsmi_num_monitor_devices(std::uint32_t* count) {
  FAKE_ENTER();
  if (fakes::users() == 0) return kNotInitialized;
  *count = static_cast<std::uint32_t>(fakes::Now()->cards.size());
  return 0;
}

FAKE_API int rsmi_dev_memory_total_get(std::uint32_t index, int type, std::uint64_t* bytes) {
  FAKE_ENTER();
  return Memory(index, type, bytes, false);
}

#ifndef FAKE_WITHOUT_USAGE
FAKE_API int rsmi_dev_memory_usage_get(std::uint32_t index, int type, std::uint64_t* bytes) {
  FAKE_ENTER();
  return Memory(index, type, bytes, true);
}
#endif

FAKE_API int rsmi_dev_pci_id_get(std::uint32_t index, std::uint64_t* id) {
  FAKE_ENTER();
  fakes::Card card;
  if (const int code = Resolve(index, &card)) return code;
  *id = std::uint64_t{card.pci.domain} << 32 | std::uint64_t{card.partition} << 28 |
        card.pci.bus << 8 | card.pci.device << 3 | card.pci.function;
  return 0;
}

FAKE_API int rsmi_dev_unique_id_get(std::uint32_t index, std::uint64_t* id) {
  FAKE_ENTER();
  fakes::Card card;
  if (const int code = Resolve(index, &card)) return code;
  *id = std::strtoull(card.uuid.substr(card.uuid.find('-') + 1).c_str(), nullptr, 16);
  return 0;
}

FAKE_API int rsmi_dev_name_get(std::uint32_t index, char* name, std::size_t length) {
  FAKE_ENTER();
  fakes::Card card;
  if (const int code = Resolve(index, &card)) return code;
  fakes::Put(card.name, name, length);
  return 0;
}
