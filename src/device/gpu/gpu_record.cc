// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/gpu_record.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/small_file.h"
#include "base/state_dir.h"

namespace spillway {

namespace {

// The path of a record in the state directory. Names come from drivers, so all
// characters but letters, digits, '.' and '-' are replaced.
std::string FileOf(const std::string& uuid, const std::string& kind, const std::string& version,
                   std::string_view of) {
  std::string name = fmt::format("{}-{}-{}{}.json", uuid, kind, version, of);
  for (char& c : name) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-';
    if (!plain) c = '_';
  }
  return "gpu/" + name;
}

nlohmann::json Json(const std::optional<bool>& flag) {
  return flag ? nlohmann::json(*flag) : nlohmann::json(nullptr);
}

std::optional<bool> Flag(const nlohmann::json& json, const char* name) {
  const auto at = json.find(name);
  if (at == json.end() || !at->is_boolean()) return std::nullopt;
  return at->get<bool>();
}

std::string Word(const nlohmann::json& json, const char* name) {
  const auto at = json.find(name);
  return at != json.end() && at->is_string() ? at->get<std::string>() : std::string();
}

// Records decide whether chunks are zeroed, so only root's and our own count.
bool IsTrusted(const std::string& path) {
  struct stat facts{};
  return ::stat(path.c_str(), &facts) == 0 && (facts.st_uid == 0 || facts.st_uid == ::geteuid());
}

std::optional<Bytes> Number(const nlohmann::json& json, const char* name) {
  const auto at = json.find(name);
  if (at == json.end() || !at->is_number_unsigned()) return std::nullopt;
  return at->get<Bytes>();
}

GpuRecord Parse(const nlohmann::json& json) {
  GpuRecord record;
  record.uuid = Word(json, "uuid");
  record.kind = Word(json, "kind");
  record.version = Word(json, "driver");
  record.when = Word(json, "when");
  record.stale_after_exit = Flag(json, "stale_after_exit");
  record.stale_after_release = Flag(json, "stale_after_release");
  record.searched = Number(json, "searched").value_or(0);
  return record;
}

// Calls `each(json)` for every valid record of this GPU and driver that can be trusted.
template <typename Each>
void ForEachRecord(const std::string& uuid, const std::string& kind, const std::string& version,
                   std::string_view of, Each&& each) {
  for (const std::string& place : StateDirsToSearch()) {
    const std::string path = place + "/" + FileOf(uuid, kind, version, of);
    const Result<std::optional<std::string>> text = ReadSmallFile(path);
    if (!text || !*text || !IsTrusted(path)) continue;
    const nlohmann::json json = nlohmann::json::parse(**text, nullptr, false);
    if (!json.is_object() || Word(json, "uuid") != uuid || Word(json, "kind") != kind ||
        Word(json, "driver") != version) {
      continue;
    }
    each(json);
  }
}

// Writes a temporary file and renames it, so that readers never see half of it.
Result<std::string> Keep(const std::string& name, const nlohmann::json& json) {
  const Result<std::string> state = StateDir();
  if (!state) return state.error();
  const std::string path = *state + "/" + name;
  const std::string beside = fmt::format("{}.{}", path, ::getpid());
  const auto failed = [&] {
    return Error{Code::kUnavailable, fmt::format("{}: {}", path, std::strerror(errno))};
  };
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  {
    std::ofstream file(beside, std::ios::binary | std::ios::trunc);
    file << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
    file.close();
    if (!file) {
      const Error why = failed();
      std::remove(beside.c_str());
      return why;
    }
  }
  if (std::rename(beside.c_str(), path.c_str()) != 0) {
    const Error why = failed();
    std::remove(beside.c_str());
    return why;
  }
  return path;
}

constexpr std::string_view kCopies = "-copies";

}  // namespace

Result<std::string> WriteGpuRecord(const GpuRecord& record) {
  return Keep(FileOf(record.uuid, record.kind, record.version, ""),
              {{"uuid", record.uuid},
               {"kind", record.kind},
               {"driver", record.version},
               {"stale_after_exit", Json(record.stale_after_exit)},
               {"stale_after_release", Json(record.stale_after_release)},
               {"searched", record.searched},
               {"when", record.when}});
}

std::optional<GpuRecord> ReadGpuRecord(const std::string& uuid, const std::string& kind,
                                       const std::string& version) {
  std::optional<GpuRecord> known;
  ForEachRecord(uuid, kind, version, "", [&](const nlohmann::json& json) {
    const GpuRecord record = Parse(json);
    if (!known || record.stale()) known = record;
  });
  return known;
}

Result<std::string> WriteCopyRecord(const CopyRecord& record) {
  return Keep(FileOf(record.uuid, record.kind, record.version, kCopies),
              {{"uuid", record.uuid},
               {"kind", record.kind},
               {"driver", record.version},
               {"gather_below", record.gather_below},
               {"when", record.when}});
}

std::optional<CopyRecord> ReadCopyRecord(const std::string& uuid, const std::string& kind,
                                         const std::string& version) {
  std::optional<CopyRecord> known;
  ForEachRecord(uuid, kind, version, kCopies, [&](const nlohmann::json& json) {
    const std::optional<Bytes> below = Number(json, "gather_below");
    if (!known && below) known = CopyRecord{uuid, kind, version, *below, Word(json, "when")};
  });
  return known;
}

}  // namespace spillway
