// SPDX-License-Identifier: Apache-2.0
// Reading values for commands, including values that must be fetched from a lower tier.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "server/command.h"
#include "server/keys_of.h"
#include "server/lmcache_key.h"
#include "wire/request.h"

namespace spillway::server {

namespace {
// Values up to this size are copied into the reply: that costs less than a lease kept until the
// client has read it.
constexpr Bytes kCopiedReplyMax = 16 * kKiB;
constexpr Bytes kCopiedToSlowMax = 512;  // A lease in the output takes about as much.
}  // namespace

bool IntegerArg(Call& call, std::size_t i, std::int64_t* number) {
  if (wire::ReadInteger(call.arg(i), number)) return true;
  call.Error("ERR value is not an integer or out of range");
  return false;
}

std::string_view KeyArg(Call& call, std::size_t i, std::string* buffer) {
  if (call.arg(i).size() > kDbKeyMax) {
    call.Error(fmt::format("ERR the key has {} bytes; at most {} are allowed", call.arg(i).size(),
                           kDbKeyMax));
    return {};
  }
  return CacheKey(call.session.db, call.arg(i), buffer);
}

Read ReadValue(Call& call, std::string_view cache_key, Lease* lease) {
  State& state = call.state;
  switch (state.direct().Find(cache_key, lease)) {
    case Core::Found::kHit:
      state.counters.hits.fetch_add(1, std::memory_order_relaxed);
      return Read::kHit;
    case Core::Found::kMiss:
      state.counters.misses.fetch_add(1, std::memory_order_relaxed);
      return Read::kMiss;
    case Core::Found::kBelow:
      break;
  }
  Session& session = call.session;
  const bool in_vain =
      std::ranges::find(session.unreachable, cache_key) != session.unreachable.end();
  if (in_vain || !session.may_wait()) {
    // LMCache's client gets a miss: an error reply would put it out of step.
    if (!session.said_hello && IsLmcacheKey(DbKeyOf(cache_key).key)) return Read::kMiss;
    call.Error("ERR the value could not be read from the tier it is in; try again");
    return Read::kFailed;
  }
  session.wanted.emplace_back(cache_key);
  if (session.exec) HoldKeys(call);
  call.Suspend(Wait::kFetch);
  return Read::kWaits;
}

void ReplyValue(Call& call, Lease lease) {
  const std::size_t bytes = lease.size();
  call.state.counters.hit_tokens.fetch_add(static_cast<std::uint64_t>(lease.tokens()),
                                           std::memory_order_relaxed);
  ReplyRange(call, std::move(lease), 0, bytes);
}

void ReplyRange(Call& call, Lease lease, std::size_t from, std::size_t bytes) {
  Output& out = call.session.out;
  const std::string_view part = lease.text().substr(from, bytes);
  // For a client that reads slowly, copies would add up: larger values are leased.
  if (part.size() <= (out.over() ? kCopiedToSlowMax : kCopiedReplyMax)) {
    call.reply.Bulk(part);
    return;
  }
  call.reply.BulkHeader(part.size());
  out.Attach(std::move(lease), from, part.size());
  call.reply.out().append("\r\n", 2);
}

void ChangeDeadline(Call& call, std::string_view cache_key, TimePoint deadline) {
  (void)call.state.direct().ChangeDeadline(cache_key,
                                           deadline);  // Not present: it has just expired.
}

}  // namespace spillway::server
