/* SPDX-License-Identifier: Apache-2.0
 * What stands in front of cuGetProcAddress does with an answer. */
#pragma once

#include "preload/preload.h"

typedef int (*ProcessCall)(const char* name, void** function, int version, uint64_t flags);
typedef int (*ProcessCallWithResult)(const char* name, void** function, int version, uint64_t flags,
                                     int* result);

/* The function to hand out for `found`, which the driver of `slot` has under that name. */
void* SpillwayHandOut(const struct Slot* slot, enum Family family, bool has_result,
                      const char* name, int version, void* found);
