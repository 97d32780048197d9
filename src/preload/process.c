/* SPDX-License-Identifier: Apache-2.0
 * cuGetProcAddress and hipGetProcAddress: a driver's own dlsym, by which CUDA's runtime reaches
 * everything. It is asked for names without their suffixes and a version, and may answer with
 * another function than dlsym has under that name (for a stream of the calling thread, for one). */
#include "preload/process.h"

/* The helpers of a driver that was reached by this function alone. */
struct ByName {
  const struct Slot* slot;
  enum Family family;
  bool has_result;
};

static void* FindByName(void* from, const char* name) {
  const struct ByName* const by = from;
  char plain[32];
  size_t length = 0;
  for (; name[length] != '\0' && length < sizeof plain - 1; ++length) plain[length] = name[length];
  if (length > 3 && plain[length - 3] == '_' && plain[length - 2] == 'v') length -= 3;
  plain[length] = '\0';
  const int recent = by->family == kCuda ? 12000 : 60000000;
  void* found = NULL;
  int code = 0;
  if (by->has_result) {
    int result = 0;
    const ProcessCallWithResult real = (ProcessCallWithResult)(uintptr_t)by->slot->real;
    code = real(plain, &found, recent, 0, &result);
  } else {
    const ProcessCall real = (ProcessCall)(uintptr_t)by->slot->real;
    code = real(plain, &found, recent, 0);
  }
  return code == 0 && found != NULL && !SpillwayIsOwn(found) ? found : NULL;
}

void* SpillwayHandOut(const struct Slot* slot, enum Family family, bool has_result,
                      const char* name, int version, void* found) {
  struct Call* const call = SpillwayCallAskedAs(name, version);
  if (call == NULL || call->family != family) return found;
  struct ByName by = {slot, family, has_result};
  const struct Driver* const driver =
      slot->driver != NULL ? slot->driver : SpillwayDriver(family, &FindByName, &by);
  return SpillwayInstead(call, found, driver);
}
