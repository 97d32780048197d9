// SPDX-License-Identifier: Apache-2.0
// What a compiled toml++ holds, from its headers.
#define TOML_HEADER_ONLY 0
#define TOML_IMPLEMENTATION
#include <toml++/toml.h>
