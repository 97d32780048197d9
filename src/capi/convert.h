// SPDX-License-Identifier: Apache-2.0
// Converts between the structs of the C ABI and the C++ types. Checks here what only this boundary
// can check: NULL pointers, numbers outside an enum, and struct sizes of other versions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spillway/cache.h"
#include "spillway/options.h"
#include "spillway/result.h"
#include "spillway/spillway.h"
#include "spillway/stats.h"

namespace spillway::capi {

// Whether a caller's struct may have this size in any version: it is at least as long as the size
// field and the first field after it, and it ends on a field's boundary.
template <typename Struct>
Status CheckSize(std::size_t size, const char* name) {
  if (size < 2 * sizeof(std::size_t)) {
    return Error{Code::kInvalidArgument, std::string(name) + ".size is not set: use sizeof"};
  }
  if (size % alignof(Struct) != 0) {
    return Error{Code::kInvalidArgument, std::string(name) + ".size is that of no such struct: " +
                                             std::to_string(size) + "; use sizeof"};
  }
  return {};
}

// Copies a caller's struct, of the caller's version, into ours. Fields the caller's version lacks
// keep the value they have in `into`.
template <typename Struct>
Status ReadSized(const Struct* from, const char* name, Struct* into) {
  if (Status ok = CheckSize<Struct>(from->size, name); !ok) return ok;
  std::memcpy(into, from, std::min(from->size, sizeof(Struct)));
  into->size = sizeof(Struct);
  return {};
}

// Copies our struct into a caller's, as many bytes as the caller's version has. Its size field is
// kept.
template <typename Struct>
Status WriteSized(Struct from, const char* name, Struct* into) {
  if (Status ok = CheckSize<Struct>(into->size, name); !ok) return ok;
  from.size = into->size;
  std::memcpy(into, &from, std::min(from.size, sizeof(Struct)));
  return {};
}

// An error if `bytes` is NULL with a length. `name` is the argument's name in the message.
Status CheckBytes(spillway_bytes bytes, const char* name);
inline std::string_view View(spillway_bytes bytes) {
  return {static_cast<const char*>(bytes.data), bytes.bytes};
}
inline spillway_bytes BytesOf(std::string_view view) { return {view.data(), view.size()}; }
// Checks an array of keys. The views point into the caller's memory.
Result<std::vector<std::string_view>> KeysOf(const spillway_bytes* keys, std::size_t count);

// Converts options. FromOptions leaves strings at NULL, which means the default, except the policy.
spillway_options FromOptions(const Options& options);
Result<Options> ToOptions(const spillway_options& options);

// Negative: no limit.
Duration Within(std::int64_t ms);

// Checks and converts arguments. Views in the result point to the caller's memory.
Result<SetOptions> ToSetOptions(const spillway_put_options& options);
Result<GetOptions> ToGetOptions(const spillway_get_options& options);
Result<Hint> ToHint(std::int32_t hint);
Result<Place> ToPlace(std::int32_t place, const char* name);
// 0: unknown.
std::optional<Duration> EtaOf(std::int64_t ms);
// Copies a caller's operation, of the caller's version. Fields it lacks are 0.
spillway_operation ReadOperation(const spillway_operation* from);
// The size of the struct in the first version, before fields were added.
inline constexpr std::size_t kOperationSizeMin = offsetof(spillway_operation, order);
// Converts an operation. The views in `to` point to `from` and to the caller's memory.
Status ToOperation(const spillway_operation& from, Operation* to);

// Fills the struct of the present version.
spillway_stats FromStats(const Stats& stats);

// A copy of `text` on the heap. The caller of the ABI frees it with spillway_free.
char* NewText(std::string_view text);

}  // namespace spillway::capi
