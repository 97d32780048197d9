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

std::string FileOf(const std::string& uuid, const std::string& kind, const std::string& version) {
  std::string name = fmt::format("{}-{}-{}.json", uuid, kind, version);
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

bool IsTrusted(const std::string& path) {
  struct stat facts{};
  return ::stat(path.c_str(), &facts) == 0 && (facts.st_uid == 0 || facts.st_uid == ::geteuid());
}

std::optional<GpuRecord> Parse(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  GpuRecord record;
  record.uuid = Word(json, "uuid");
  record.kind = Word(json, "kind");
  record.version = Word(json, "driver");
  record.when = Word(json, "when");
  record.stale_after_exit = Flag(json, "stale_after_exit");
  record.stale_after_release = Flag(json, "stale_after_release");
  if (const auto at = json.find("searched"); at != json.end() && at->is_number_unsigned()) {
    record.searched = at->get<Bytes>();
  }
  return record;
}

}  // namespace

Result<std::string> WriteGpuRecord(const GpuRecord& record) {
  const Result<std::string> state = StateDir();
  if (!state) return state.error();
  const std::string path = *state + "/" + FileOf(record.uuid, record.kind, record.version);
  const std::string beside = fmt::format("{}.{}", path, ::getpid());
  const auto failed = [&] {
    return Error{Code::kUnavailable, fmt::format("{}: {}", path, std::strerror(errno))};
  };
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  const nlohmann::json json = {{"uuid", record.uuid},
                               {"kind", record.kind},
                               {"driver", record.version},
                               {"stale_after_exit", Json(record.stale_after_exit)},
                               {"stale_after_release", Json(record.stale_after_release)},
                               {"searched", record.searched},
                               {"when", record.when}};
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

std::optional<GpuRecord> ReadGpuRecord(const std::string& uuid, const std::string& kind,
                                       const std::string& version) {
  std::optional<GpuRecord> known;
  for (const std::string& place : StateDirsToSearch()) {
    const std::string path = place + "/" + FileOf(uuid, kind, version);
    const Result<std::optional<std::string>> text = ReadSmallFile(path);
    if (!text || !*text || !IsTrusted(path)) continue;
    const std::optional<GpuRecord> record = Parse(**text);
    if (!record || record->uuid != uuid || record->kind != kind || record->version != version) {
      continue;
    }
    if (!known || record->stale()) known = record;
  }
  return known;
}

}  // namespace spillway
