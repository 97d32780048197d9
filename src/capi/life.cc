// SPDX-License-Identifier: Apache-2.0
// The C ABI: opening and closing, names, messages, leases.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "cache/settings.h"
#include "capi/convert.h"
#include "capi/guard.h"
#include "capi/handle.h"
#include "capi/lease_table.h"
#include "spillway/log.h"
#include "spillway/spillway.h"
#include "spillway/version.h"

namespace spillway::capi {

namespace {

Status OpenInto(const Options& options, spillway_cache** cache) {
  CountForks();
  auto handle = std::make_unique<spillway_cache>();
  Result<std::unique_ptr<Mailbox>> mailbox = Mailbox::Open();
  if (!mailbox) return mailbox.error();
  handle->mailbox = std::move(*mailbox);
  Result<std::unique_ptr<Cache>> opened = Cache::Open(options);
  if (!opened) return opened.error();
  handle->cache = std::move(*opened);
  handle->courier = std::make_unique<Courier>();
  *cache = handle.release();
  return {};
}

Result<std::string> ReadFile(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (file && !text.bad()) return std::move(text).str();
  return Error{Code::kUnavailable, std::string(path) + ": " +
                                       std::generic_category().message(errno == 0 ? EIO : errno)};
}

// Names are string literals, so their views end with a zero byte.
template <typename Word>
const char* NameAt(std::int32_t at, int count) {
  return at >= 0 && at < count ? Name(static_cast<Word>(at)).data() : "";
}

}  // namespace
}  // namespace spillway::capi

using namespace spillway;        // NOLINT(google-build-using-namespace)
using namespace spillway::capi;  // NOLINT(google-build-using-namespace)

extern "C" {

const char* spillway_code_name(std::int32_t code) {
  if (code == SPILLWAY_OK) return "OK";
  return NameAt<Code>(code - 1, SPILLWAY_CORRUPT);
}
const char* spillway_mode_name(std::int32_t mode) {
  return NameAt<Mode>(mode, SPILLWAY_WORKFLOW_AWARE + 1);
}
const char* spillway_action_name(std::int32_t action) { return NameAt<Action>(action, kActions); }
const char* spillway_reason_name(std::int32_t reason) { return NameAt<Reason>(reason, kReasons); }

const char* spillway_version(void) { return SPILLWAY_VERSION; }
std::int32_t spillway_abi_version(void) { return SPILLWAY_ABI_VERSION; }
const char* spillway_error_message(void) { return LastMessage(); }
void spillway_free(void* text) { std::free(text); }

spillway_code spillway_set_log(std::int32_t least, spillway_log_call call, void* context) {
  return Guarded([&]() -> Status {
    if (least < SPILLWAY_LOG_INFO || least > SPILLWAY_LOG_OFF) {
      return Bad("least: it must be one of spillway_log_level");
    }
    LogCall to;
    if (call != nullptr) {
      to = [call, context](LogLevel level, std::string_view text) {
        call(static_cast<std::int32_t>(level), std::string(text).c_str(), context);
      };
    }
    SetLog(static_cast<LogLevel>(least), std::move(to));
    return {};
  });
}

spillway_code spillway_options_init(spillway_options* options, std::size_t size,
                                    const char* preset) {
  return Guarded([&]() -> Status {
    if (options == nullptr) return Bad("options is NULL");
    const Result<Options> defaults = PresetOptions(preset == nullptr ? "default" : preset);
    if (!defaults) return defaults.error();
    options->size = size;
    return WriteSized(FromOptions(*defaults), "options", options);
  });
}

spillway_code spillway_cache_open(const spillway_options* options, spillway_cache** cache) {
  return Guarded([&]() -> Status {
    if (cache == nullptr) return Bad("cache is NULL");
    *cache = nullptr;
    if (options == nullptr) return OpenInto(Options(), cache);
    Result<Options> read = ToOptions(*options);
    return read ? OpenInto(*read, cache) : read.error();
  });
}

spillway_code spillway_cache_open_toml(spillway_bytes text, const char* file_name,
                                       spillway_cache** cache) {
  return Guarded([&]() -> Status {
    if (cache == nullptr) return Bad("cache is NULL");
    *cache = nullptr;
    if (Status ok = CheckBytes(text, "text"); !ok) return ok;
    Result<Options> read =
        LoadOptions(std::string(View(text)), file_name == nullptr ? "settings" : file_name, {});
    return read ? OpenInto(*read, cache) : read.error();
  });
}

spillway_code spillway_cache_open_file(const char* path, spillway_cache** cache) {
  return Guarded([&]() -> Status {
    if (cache == nullptr || path == nullptr) return Bad("path or cache is NULL");
    *cache = nullptr;
    errno = 0;
    const Result<std::string> text = ReadFile(path);
    if (!text) return text.error();
    Result<Options> read = LoadOptions(*text, path, {});
    return read ? OpenInto(*read, cache) : read.error();
  });
}

spillway_code spillway_cache_close(spillway_cache* cache) {
  return Guarded([&]() -> Status {
    if (cache == nullptr) return {};
    // A cache of the parent process stays untouched: its threads do not exist here, so closing
    // would wait for them forever.
    if (Status ok = CheckHandle(cache); !ok) return ok;
    const std::unique_ptr<spillway_cache> handle(cache);
    handle->courier.reset();
    return Cache::Close(std::move(handle->cache));
  });
}

spillway_code spillway_cache_start(spillway_cache* cache) {
  return Guarded([&]() -> Status {
    if (Status ok = CheckHandle(cache); !ok) return ok;
    return cache->cache->Start();
  });
}

spillway_code spillway_cache_stop(spillway_cache* cache) {
  return Guarded([&]() -> Status {
    if (Status ok = CheckHandle(cache); !ok) return ok;
    cache->cache->Stop();
    return {};
  });
}

spillway_code spillway_lease_release(spillway_lease* lease) {
  return Guarded([&]() -> Status {
    if (lease == nullptr) return Bad("lease is NULL");
    const std::uint64_t handle = lease->handle;
    *lease = spillway_lease{};
    Lease taken;
    if (handle != 0 && !LeaseTable::Instance().Take(handle, &taken)) {
      return Bad("lease: released already, or never given out");
    }
    return {};
  });
}

spillway_code spillway_lease_read_facts(const spillway_lease* lease, spillway_lease_facts* facts) {
  return Guarded([&]() -> Status {
    if (lease == nullptr || facts == nullptr) return Bad("lease or facts is NULL");
    Status status = Bad("lease: empty, released already, or never given out");
    LeaseTable::Instance().With(lease->handle, [&](const Lease& held) {
      const spillway_lease_facts read = {sizeof(spillway_lease_facts),
                                         held.tokens(),
                                         held.generation(),
                                         BytesOf(held.agent()),
                                         BytesOf(held.meta()),
                                         static_cast<std::int32_t>(held.place())};
      status = WriteSized(read, "facts", facts);
    });
    return status;
  });
}

}  // extern "C"
