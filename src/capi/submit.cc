// SPDX-License-Identifier: Apache-2.0
// The C ABI: batches.
#include <algorithm>
#include <chrono>
#include <latch>
#include <memory>
#include <tuple>
#include <utility>

#include "capi/convert.h"
#include "capi/guard.h"
#include "capi/handle.h"
#include "capi/lease_table.h"
#include "spillway/spillway.h"

namespace spillway::capi {

namespace {

// An operation must have at least all fields of the oldest version. Newer versions only add fields
// at the end.
Status CheckSize(const spillway_operation* operations, std::size_t count) {
  if (operations == nullptr && count > 0) return Bad("operations is NULL");
  if (count > 0 && operations->size < kOperationSizeMin) {
    return Bad("operations[0].size is not set: use sizeof(spillway_operation)");
  }
  if (count > 0 && operations->size % alignof(spillway_operation) != 0) {
    return Bad("operations[0].size is not that of a struct");
  }
  return {};
}

void Report(const Status& status, spillway_operation* to) noexcept {
  to->code = status ? SPILLWAY_OK : CodeOf(status.error().code);
  CopyMessage(status ? std::string_view() : status.error().message, to->message,
              sizeof to->message);
}

// Writes the outcome of one operation. Runs on the thread that ended the batch.
void Land(Operation* from, spillway_operation* to) noexcept {
  if (to->code != SPILLWAY_OK) return;  // It was refused and never submitted.
  Report(from->status, to);
  to->found = from->found ? 1 : 0;
  to->bytes = from->bytes;
  if (!from->lease) return;
  const spillway_lease lease{0, from->lease.data(), from->lease.size()};
  const spillway_code put = Guarded([&]() -> Status {
    to->lease = lease;
    to->lease.handle = LeaseTable::Instance().Put(std::move(from->lease));
    return {};
  });
  if (put == SPILLWAY_OK) return;
  from->lease.Release();
  to->lease = spillway_lease{};
  Report(Error{Code::kNoMemory, "get: no memory for the lease"}, to);
}

void LandAll(Flight* flight) noexcept {
  std::size_t taken_off = 0;
  for (std::size_t i = 0; i < flight->count; ++i) {
    spillway_operation* operation = flight->At(i);
    if (operation->code == SPILLWAY_OK) Land(&flight->inside[taken_off++], operation);
    if (operation->code != SPILLWAY_OK) ++flight->failed;
  }
}

// Clears the outcomes and marks operations that are wrong by themselves. The others are copied into
// `inside`.
void Prepare(Flight* flight) {
  flight->inside.reserve(flight->count);
  for (std::size_t i = 0; i < flight->count; ++i) {
    spillway_operation* operation = flight->At(i);
    operation->found = 0;
    operation->bytes = 0;
    operation->lease = spillway_lease{};
    Operation inside;
    const bool same_size = operation->size == flight->operations->size;
    const Status status = same_size ? ToOperation(ReadOperation(operation), &inside)
                                    : Bad("size differs from the first operation's");
    Report(status, operation);
    if (status) flight->inside.push_back(std::move(inside));
  }
}

Result<std::unique_ptr<Flight>> NewFlight(spillway_operation* operations, std::size_t count,
                                          std::uint64_t tag) {
  if (Status ok = CheckSize(operations, count); !ok) return ok.error();
  auto flight = std::make_unique<Flight>();
  flight->operations = operations;
  flight->count = count;
  flight->tag = tag;
  Prepare(flight.get());
  return flight;
}

// Submits a batch. It owns itself until it is put into the mailbox.
void TakeOff(Cache* cache, Mailbox* mailbox, Flight* flying, Duration within) {
  cache->Submit(flying->inside.data(), flying->inside.size(), within, Completion([mailbox, flying] {
                  LandAll(flying);
                  mailbox->Put(std::unique_ptr<Flight>(flying));
                }));
}

}  // namespace
}  // namespace spillway::capi

using namespace spillway;        // NOLINT(google-build-using-namespace)
using namespace spillway::capi;  // NOLINT(google-build-using-namespace)

extern "C" {

spillway_code spillway_cache_submit(spillway_cache* cache, spillway_operation* operations,
                                    std::size_t count, std::int64_t within_ms, std::uint64_t tag) {
  return Guarded([&]() -> Status {
    if (Status ok = CheckHandle(cache); !ok) return ok;
    Result<std::unique_ptr<Flight>> flight = NewFlight(operations, count, tag);
    if (!flight) return flight.error();
    TakeOff(cache->cache.get(), cache->mailbox.get(), flight->release(), Within(within_ms));
    return {};
  });
}

spillway_code spillway_cache_submit_away(spillway_cache* cache, spillway_operation* operations,
                                         std::size_t count, std::int64_t within_ms,
                                         std::uint64_t tag) {
  return Guarded([&]() -> Status {
    if (Status ok = CheckHandle(cache); !ok) return ok;
    Result<std::unique_ptr<Flight>> flight = NewFlight(operations, count, tag);
    if (!flight) return flight.error();
    Flight* const flying = flight->get();
    cache->courier->Hand([cache, flying, within = Within(within_ms)] {
      TakeOff(cache->cache.get(), cache->mailbox.get(), flying, within);
    });
    std::ignore = flight->release();  // The task owns it.
    return {};
  });
}

spillway_code spillway_cache_run(spillway_cache* cache, spillway_operation* operations,
                                 std::size_t count, std::int64_t within_ms, std::size_t* failed) {
  return Guarded([&]() -> Status {
    if (failed != nullptr) *failed = 0;
    if (Status ok = CheckHandle(cache); !ok) return ok;
    Result<std::unique_ptr<Flight>> flight = NewFlight(operations, count, 0);
    if (!flight) return flight.error();
    const auto landed = std::make_shared<std::latch>(1);
    cache->cache->Submit((*flight)->inside.data(), (*flight)->inside.size(), Within(within_ms),
                         Completion([landed] { landed->count_down(); }));
    landed->wait();
    LandAll(flight->get());
    if (failed != nullptr) *failed = (*flight)->failed;
    return {};
  });
}

int spillway_cache_fd(spillway_cache* cache) {
  const Status ok = CheckHandle(cache);
  if (ok) return cache->mailbox->fd();
  Fail(ok.error().code, ok.error().message);
  return -1;
}

spillway_code spillway_cache_poll(spillway_cache* cache, spillway_completion* completions,
                                  std::size_t max, std::int64_t timeout_ms, std::size_t* count) {
  return Guarded([&]() -> Status {
    if (Status ok = CheckHandle(cache); !ok) return ok;
    if (count == nullptr) return Bad("count is NULL");
    *count = 0;
    if (max == 0) return {};
    if (completions == nullptr) return Bad("completions is NULL");
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();  // real world: a caller's wait
    std::int64_t left = timeout_ms;
    // Another thread may take the batch first: then wait for the rest of the time.
    for (;;) {
      *count = cache->mailbox->Take(completions, max);
      if (*count > 0 || left == 0) return {};
      cache->mailbox->Wait(left);
      if (timeout_ms < 0) continue;
      const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(
          Clock::now() - start);  // real world: a caller's wait
      left = std::max<std::int64_t>(timeout_ms - waited.count(), 0);
    }
  });
}

}  // extern "C"
