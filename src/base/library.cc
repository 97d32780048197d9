#include "base/library.h"

#include <dlfcn.h>

#include <fmt/format.h>

namespace spillway {

Result<Library> Library::Open(const std::vector<std::string>& names) {
  std::string why = "no name to load it by";
  for (const std::string& name : names) {
    if (void* handle = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL)) return Library(handle, name);
    // Of several names the first is the usual one: its reason says most.
    const char* error = dlerror();
    if (&name == &names.front()) why = error != nullptr ? error : "dlopen failed";
  }
  return Error{Code::kUnavailable, why};
}

void* Library::Find(const char* symbol) const { return dlsym(handle_, symbol); }

}  // namespace spillway
