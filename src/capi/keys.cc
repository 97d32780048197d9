// SPDX-License-Identifier: Apache-2.0
// The C ABI: one key or many keys, on the calling thread.
#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "capi/convert.h"
#include "capi/guard.h"
#include "capi/handle.h"
#include "capi/lease_table.h"
#include "spillway/spillway.h"

namespace spillway::capi {

namespace {

Status CheckCall(const spillway_cache* cache, spillway_bytes key) {
  if (Status ok = CheckHandle(cache); !ok) return ok;
  return CheckBytes(key, "key");
}

spillway_lease HandOut(Lease lease) {
  spillway_lease out{0, lease.data(), lease.size()};
  out.handle = LeaseTable::Instance().Put(std::move(lease));
  return out;
}

Status CheckTouch(const spillway_touch_options& read) {
  for (const auto& [bytes, name] :
       {std::pair{read.agent, "agent"}, std::pair{read.run, "run"}, std::pair{read.step, "step"}}) {
    if (Status ok = CheckBytes(bytes, name); !ok) return ok;
  }
  if (read.run.bytes > 0 && read.step.bytes == 0) {
    return Bad("run without step: which step of the run has started?");
  }
  return {};
}

Status TellGraph(Cache* cache, std::string_view key, const spillway_touch_options& read) {
  if (read.agent.bytes == 0 && read.run.bytes == 0) return {};
  const std::shared_ptr<StepGraph> graph = cache->step_graph();
  if (read.agent.bytes > 0) {
    if (Status ok = graph->Own(View(read.agent), key); !ok) return ok;
  }
  if (read.run.bytes == 0) return {};
  return graph->Start(View(read.run), View(read.step), cache->now());
}

// Hands out all leases or, if there is no memory for the handles, none.
void HandOutAll(std::vector<Lease> from, spillway_lease* to) {
  std::size_t done = 0;
  try {
    for (; done < from.size(); ++done) {
      if (from[done]) to[done] = HandOut(std::move(from[done]));
    }
  } catch (...) {
    while (done-- > 0) spillway_lease_release(&to[done]);
    throw;
  }
}

}  // namespace
}  // namespace spillway::capi

using namespace spillway;        // NOLINT(google-build-using-namespace)
using namespace spillway::capi;  // NOLINT(google-build-using-namespace)

extern "C" {

spillway_code spillway_cache_put(spillway_cache* cache, spillway_bytes key, const void* data,
                                 std::uint64_t bytes, const spillway_put_options* options) {
  return Guarded([&]() -> Status {
    if (Status ok = CheckCall(cache, key); !ok) return ok;
    if (data == nullptr && bytes > 0) return Bad("data is NULL");
    spillway_put_options read{};
    if (options != nullptr) {
      if (Status ok = ReadSized(options, "options", &read); !ok) return ok;
    }
    const Result<SetOptions> set = ToSetOptions(read);
    if (!set) return set.error();
    return cache->cache->Set(View(key), Source(data, bytes), *set);
  });
}

spillway_code spillway_cache_get(spillway_cache* cache, spillway_bytes key, spillway_lease* lease) {
  return Guarded([&]() -> Status {
    if (lease == nullptr) return Bad("lease is NULL");
    *lease = spillway_lease{};
    if (Status ok = CheckCall(cache, key); !ok) return ok;
    Result<std::optional<Lease>> got = cache->cache->Get(View(key));
    if (!got) return got.error();
    if (*got) *lease = HandOut(std::move(**got));
    return {};
  });
}

spillway_code spillway_cache_get_with(spillway_cache* cache, spillway_bytes key,
                                      const spillway_get_options* options, spillway_lease* lease) {
  return Guarded([&]() -> Status {
    if (lease == nullptr) return Bad("lease is NULL");
    *lease = spillway_lease{};
    if (Status ok = CheckCall(cache, key); !ok) return ok;
    spillway_get_options read{};
    if (options != nullptr) {
      if (Status ok = ReadSized(options, "options", &read); !ok) return ok;
    }
    const Result<GetOptions> how = ToGetOptions(read);
    if (!how) return how.error();
    Result<std::optional<Lease>> got = cache->cache->Get(View(key), *how);
    if (!got) return got.error();
    if (*got) *lease = HandOut(std::move(**got));
    return {};
  });
}

spillway_code spillway_cache_read(spillway_cache* cache, spillway_bytes key, void* data,
                                  std::uint64_t capacity, std::uint64_t* bytes,
                                  std::int32_t* found) {
  return Guarded([&]() -> Status {
    if (bytes == nullptr || found == nullptr) return Bad("bytes or found is NULL");
    *bytes = 0;
    *found = 0;
    if (Status ok = CheckCall(cache, key); !ok) return ok;
    if (data == nullptr && capacity > 0) return Bad("data is NULL");
    const Result<std::optional<Lease>> got = cache->cache->Get(View(key));
    if (!got) return got.error();
    if (!*got) return {};
    const Lease& lease = **got;
    *found = 1;
    *bytes = lease.size();
    if (lease.size() > capacity) {
      return Bad(fmt::format("data has {} bytes, the value {}", capacity, lease.size()));
    }
    if (lease.size() > 0) std::copy_n(lease.data(), lease.size(), static_cast<std::byte*>(data));
    return {};
  });
}

spillway_code spillway_cache_erase(spillway_cache* cache, spillway_bytes key,
                                   std::int32_t* was_there) {
  return Guarded([&]() -> Status {
    if (Status ok = CheckCall(cache, key); !ok) return ok;
    const bool erased = cache->cache->Erase(View(key));
    if (was_there != nullptr) *was_there = erased ? 1 : 0;
    return {};
  });
}

spillway_code spillway_cache_touch(spillway_cache* cache, spillway_bytes key, std::int32_t hint,
                                   std::int32_t* was_there) {
  return Guarded([&]() -> Status {
    if (Status ok = CheckCall(cache, key); !ok) return ok;
    spillway_put_options read{};
    read.hint = hint;
    const Result<SetOptions> checked = ToSetOptions(read);
    if (!checked) return checked.error();
    const bool touched = cache->cache->Touch(View(key), checked->hint);
    if (was_there != nullptr) *was_there = touched ? 1 : 0;
    return {};
  });
}

spillway_code spillway_cache_touch_with(spillway_cache* cache, spillway_bytes key,
                                        const spillway_touch_options* options,
                                        std::int32_t* was_there) {
  return Guarded([&]() -> Status {
    if (Status ok = CheckCall(cache, key); !ok) return ok;
    spillway_touch_options read{};
    if (options != nullptr) {
      if (Status ok = ReadSized(options, "options", &read); !ok) return ok;
    }
    if (Status ok = CheckTouch(read); !ok) return ok;
    const Result<Hint> hint = ToHint(read.hint);
    if (!hint) return hint.error();
    if (Status ok = TellGraph(cache->cache.get(), View(key), read); !ok) return ok;
    const std::string_view waits_for = read.run.bytes == 0 ? View(read.step) : std::string_view();
    const bool touched = cache->cache->Touch(View(key), *hint, EtaOf(read.eta_ms), waits_for);
    if (was_there != nullptr) *was_there = touched ? 1 : 0;
    return {};
  });
}

spillway_code spillway_cache_contains(spillway_cache* cache, spillway_bytes key,
                                      std::int32_t* present) {
  return Guarded([&]() -> Status {
    if (Status ok = CheckCall(cache, key); !ok) return ok;
    const bool there = cache->cache->Contains(View(key));
    if (present != nullptr) *present = there ? 1 : 0;
    return {};
  });
}

spillway_code spillway_cache_contains_many(spillway_cache* cache, const spillway_bytes* keys,
                                           std::size_t count, std::uint8_t* present,
                                           std::size_t* run) {
  return Guarded([&]() -> Status {
    if (Status ok = CheckHandle(cache); !ok) return ok;
    const Result<std::vector<std::string_view>> views = KeysOf(keys, count);
    if (!views) return views.error();
    std::size_t leading = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const bool there = cache->cache->Contains((*views)[i]);
      if (there && leading == i) ++leading;
      if (present != nullptr) present[i] = there ? 1 : 0;
      if (!there && present == nullptr) break;
    }
    if (run != nullptr) *run = leading;
    return {};
  });
}

spillway_code spillway_cache_clear(spillway_cache* cache) {
  return Guarded([&]() -> Status {
    if (Status ok = CheckHandle(cache); !ok) return ok;
    cache->cache->Clear();
    return {};
  });
}

spillway_code spillway_cache_flush_deletes(spillway_cache* cache, std::int64_t within_ms) {
  return Guarded([&]() -> Status {
    if (Status ok = CheckHandle(cache); !ok) return ok;
    return cache->cache->FlushDeletes(Within(within_ms));
  });
}

spillway_code spillway_cache_get_many(spillway_cache* cache, const spillway_bytes* keys,
                                      std::size_t count, spillway_lease* leases,
                                      std::size_t* hits) {
  return Guarded([&]() -> Status {
    if (Status ok = CheckHandle(cache); !ok) return ok;
    if (leases == nullptr && count > 0) return Bad("leases is NULL");
    std::fill_n(leases, count, spillway_lease{});
    const Result<std::vector<std::string_view>> views = KeysOf(keys, count);
    if (!views) return views.error();
    std::vector<Lease> got(count);
    const std::size_t found = cache->cache->GetMany(views->data(), count, got.data());
    HandOutAll(std::move(got), leases);
    if (hits != nullptr) *hits = found;
    return {};
  });
}

spillway_code spillway_cache_prefetch(spillway_cache* cache, const spillway_bytes* keys,
                                      std::size_t count, std::size_t* coming) {
  return Guarded([&]() -> Status {
    if (coming != nullptr) *coming = 0;
    if (Status ok = CheckHandle(cache); !ok) return ok;
    const Result<std::vector<std::string_view>> views = KeysOf(keys, count);
    if (!views) return views.error();
    const std::size_t begun = cache->cache->Prefetch(views->data(), views->size());
    if (coming != nullptr) *coming = begun;
    return {};
  });
}

spillway_code spillway_cache_match(spillway_cache* cache, const spillway_bytes* keys,
                                   std::size_t count, std::size_t* run) {
  return Guarded([&]() -> Status {
    if (Status ok = CheckHandle(cache); !ok) return ok;
    if (run == nullptr) return Bad("run is NULL");
    const Result<std::vector<std::string_view>> views = KeysOf(keys, count);
    if (!views) return views.error();
    *run = cache->cache->Match(*views);
    return {};
  });
}

spillway_code spillway_cache_get_chain(spillway_cache* cache, const spillway_bytes* keys,
                                       std::size_t count, spillway_lease* leases,
                                       std::size_t* run) {
  return spillway_cache_get_chain_with(cache, keys, count, nullptr, leases, run);
}

spillway_code spillway_cache_get_chain_with(spillway_cache* cache, const spillway_bytes* keys,
                                            std::size_t count, const spillway_get_options* options,
                                            spillway_lease* leases, std::size_t* run) {
  return Guarded([&]() -> Status {
    if (Status ok = CheckHandle(cache); !ok) return ok;
    if (run == nullptr) return Bad("run is NULL");
    if (leases == nullptr && count > 0) return Bad("leases is NULL");
    *run = 0;
    std::fill_n(leases, count, spillway_lease{});
    const Result<std::vector<std::string_view>> views = KeysOf(keys, count);
    if (!views) return views.error();
    spillway_get_options read{};
    if (options != nullptr) {
      if (Status ok = ReadSized(options, "options", &read); !ok) return ok;
    }
    const Result<GetOptions> said = ToGetOptions(read);
    if (!said) return said.error();
    std::vector<Lease> chain = cache->cache->GetChain(*views, *said);
    const std::size_t length = chain.size();
    HandOutAll(std::move(chain), leases);
    *run = length;
    return {};
  });
}

}  // extern "C"
