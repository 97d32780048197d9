// SPDX-License-Identifier: Apache-2.0
#include "http/stream.h"

#include <utility>

namespace spillway::http {

std::optional<Json> PatchOf(const Json& before, const Json& after) {
  // Recursion is as deep as the state, which we define.
  Json patch = Json::object();
  for (const auto& [name, value] : after.items()) {
    const auto old = before.find(name);
    if (old == before.end()) {
      patch[name] = value;
    } else if (old->is_object() && value.is_object()) {
      if (std::optional<Json> inside = PatchOf(*old, value)) patch[name] = std::move(*inside);
    } else if (*old != value) {
      patch[name] = value;
    }
  }
  for (const auto& [name, value] : before.items()) {
    if (!after.contains(name)) patch[name] = nullptr;
  }
  if (patch.empty()) return std::nullopt;
  return patch;
}

}  // namespace spillway::http
