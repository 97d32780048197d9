// SPDX-License-Identifier: Apache-2.0
#include "base/library.h"

#include <dlfcn.h>

#include <fmt/format.h>

namespace spillway {

Result<Library> Library::Open(const std::vector<std::string>& names) {
  std::string why = "no library name was given";
  for (const std::string& name : names) {
    if (void* handle = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL)) return Library(handle, name);
    // The first name is the usual one, so report its error.
    const char* error = dlerror();
    if (&name == &names.front()) why = error != nullptr ? error : "dlopen failed";
  }
  return Error{Code::kUnavailable, why};
}

void* Library::Find(const char* symbol) const { return dlsym(handle_, symbol); }

}  // namespace spillway
