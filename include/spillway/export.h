// SPDX-License-Identifier: Apache-2.0
// Marks the symbols that libspillway.so exports; all other symbols are hidden.
#pragma once

#if defined(__GNUC__)
#define SPILLWAY_API __attribute__((visibility("default")))
#else
#define SPILLWAY_API
#endif
