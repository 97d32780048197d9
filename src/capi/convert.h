// Between the structs of the C ABI and ours, with the checks that only the
// border can make: pointers that are not there, sizes of other versions.
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

// Whether a caller's struct may have that size, in whatever version: it reaches to the
// end of its first field at least, and cuts none in two.
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

// A caller's struct, of its own version, as ours: what it does not have keeps
// the value it has in `into`.
template <typename Struct>
Status ReadSized(const Struct* from, const char* name, Struct* into) {
  if (Status ok = CheckSize<Struct>(from->size, name); !ok) return ok;
  std::memcpy(into, from, std::min(from->size, sizeof(Struct)));
  into->size = sizeof(Struct);
  return {};
}

// The other way: as much as the caller has room for, its size left alone.
template <typename Struct>
Status WriteSized(Struct from, const char* name, Struct* into) {
  if (Status ok = CheckSize<Struct>(into->size, name); !ok) return ok;
  from.size = into->size;
  std::memcpy(into, &from, std::min(from.size, sizeof(Struct)));
  return {};
}

Status CheckBytes(spillway_bytes bytes, const char* name);
inline std::string_view View(spillway_bytes bytes) {
  return {static_cast<const char*>(bytes.data), bytes.bytes};
}
inline spillway_bytes BytesOf(std::string_view view) { return {view.data(), view.size()}; }
Result<std::vector<std::string_view>> KeysOf(const spillway_bytes* keys, std::size_t count);

spillway_options FromOptions(const Options& options);
Result<Options> ToOptions(const spillway_options& options);

// Negative: for ever.
Duration Within(std::int64_t ms);

Result<SetOptions> ToSetOptions(const spillway_put_options& options);
Result<GetOptions> ToGetOptions(const spillway_get_options& options);
Result<Hint> ToHint(std::int32_t hint);
Result<Place> ToPlace(std::int32_t place, const char* name);
// 0: none is known.
std::optional<Duration> EtaOf(std::int64_t ms);
// As much of a caller's operation as it has; the rest is 0.
spillway_operation ReadOperation(const spillway_operation* from);
// The size of one before anything was added to it.
inline constexpr std::size_t kOperationSizeMin = offsetof(spillway_operation, order);
// The views in it are of `from` and what that points to.
Status ToOperation(const spillway_operation& from, Operation* to);

spillway_stats FromStats(const Stats& stats);

// To be freed by spillway_free.
char* NewText(std::string_view text);

}  // namespace spillway::capi
