// What was found out about a GPU under one version of its driver, in small files of
// the state directory: by `spillway selftest` in gpu/<uuid>-<kind>-<version>.json, by
// the first cache that opens it in gpu/<uuid>-<kind>-<version>-copies.json. Caches
// that open the GPU read them. Another version of the driver is another file, so
// what was found under the old one does not count any more.
#pragma once

#include <optional>
#include <string>

#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

struct GpuRecord {
  std::string uuid;
  std::string kind;     // "cuda"
  std::string version;  // VersionText.
  // Whether another process found in new memory what one had left there that
  // ended, or one that returned it and lives on. Empty: not found out.
  std::optional<bool> stale_after_exit = {};
  std::optional<bool> stale_after_release = {};
  Bytes searched = 0;     // New memory looked through, the lesser of the two.
  std::string when = {};  // "2026-11-15T21:40:02Z"

  bool stale() const {
    return stale_after_exit.value_or(false) || stale_after_release.value_or(false);
  }
};

// Whole or not at all. Returns where it is.
Result<std::string> WriteGpuRecord(const GpuRecord& record);

// Empty: nothing is known. What is no such record, or belongs neither to us nor to
// root, is not heeded. Of several the one that found stale bytes.
std::optional<GpuRecord> ReadGpuRecord(const std::string& uuid, const std::string& kind,
                                       const std::string& version);

// How scattered pieces travel best (copy_trial.h).
struct CopyRecord {
  std::string uuid;
  std::string kind;
  std::string version;
  Bytes gather_below = 0;
  std::string when = {};
};

Result<std::string> WriteCopyRecord(const CopyRecord& record);
std::optional<CopyRecord> ReadCopyRecord(const std::string& uuid, const std::string& kind,
                                         const std::string& version);

}  // namespace spillway
