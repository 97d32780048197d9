// SPDX-License-Identifier: Apache-2.0
// Findings about a GPU under one version of its driver, in small files of the
// state directory. `spillway selftest` writes gpu/<uuid>-<kind>-<version>.json;
// the first cache that opens the GPU writes
// gpu/<uuid>-<kind>-<version>-copies.json. Caches that open the GPU read them.
// Another version of the driver has other files, so old findings no longer apply.
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
  // Whether a process found, in new memory, bytes left by another process that had
  // ended, or by one that returned the memory and lives on. Empty: not tested.
  std::optional<bool> stale_after_exit = {};
  std::optional<bool> stale_after_release = {};
  Bytes searched = 0;     // New memory that was searched, the lesser of the two.
  std::string when = {};  // "2026-11-15T21:40:02Z"

  bool stale() const {
    return stale_after_exit.value_or(false) || stale_after_release.value_or(false);
  }
};

// Writes the file completely or not at all. Returns its path.
Result<std::string> WriteGpuRecord(const GpuRecord& record);

// Empty: nothing is known. Files that are no such record, or are owned neither
// by this user nor by root, are ignored. Of several records, one that found
// stale bytes wins.
std::optional<GpuRecord> ReadGpuRecord(const std::string& uuid, const std::string& kind,
                                       const std::string& version);

// The fastest way to copy scattered pieces (copy_trial.h).
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
