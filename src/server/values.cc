// Reading and writing values for commands, and what happens where that can't be
// done at once.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "server/command.h"
#include "server/lmcache_key.h"
#include "wire/request.h"

namespace spillway::server {

namespace {
// Below this a value is copied into the reply: that costs less than a lease kept
// until the client has read it.
constexpr Bytes kCopiedReplyMax = 16 * kKiB;
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
  if (std::ranges::find(session.unreachable, cache_key) != session.unreachable.end()) {
    // To a client that can't bear an error, what can't be had is not there.
    if (!session.said_hello && IsLmcacheKey(DbKeyOf(cache_key).key)) return Read::kMiss;
    call.Error("ERR the value could not be read from the tier it is in; try again");
    return Read::kFailed;
  }
  session.wanted.emplace_back(cache_key);
  call.waits = true;
  return Read::kWaits;
}

void ReplyValue(Call& call, Lease lease) {
  call.state.counters.hit_tokens.fetch_add(static_cast<std::uint64_t>(lease.tokens()),
                                           std::memory_order_relaxed);
  if (lease.size() <= kCopiedReplyMax) {
    call.reply.Bulk(lease.text());
    return;
  }
  call.reply.BulkHeader(lease.size());
  call.session.out.Attach(std::move(lease));
  call.reply.out().append("\r\n", 2);
}

Value ValueArg(Call& call, std::size_t i) {
  if (i == call.session.apart_at) return {call.session.aside, !!call.session.room};
  return {call.arg(i), false};
}

namespace {

Stored NotNow(Call& call, std::string_view cache_key, const Value& value, const SetOptions& options,
              TimePoint deadline, const Direct::Wrote& wrote);

Stored Judge(Call& call, std::string_view cache_key, int db, const Value& value,
             const SetOptions& options, TimePoint deadline, const Direct::Wrote& wrote) {
  if (wrote.status && !wrote.soon && !wrote.on_disk) {
    if (wrote.was_new) call.state.CountNew(db);
    return Stored::kYes;
  }
  if (wrote.soon || wrote.on_disk) {
    return NotNow(call, cache_key, value, options, deadline, wrote);
  }
  switch (wrote.status.error().code) {
    case Code::kBlocked:
    case Code::kOverBudget:
    case Code::kNoMemory:
    case Code::kBusy:
      return Stored::kRefused;
    default:
      call.Error(fmt::format("ERR {}", wrote.status.error().message));
      return Stored::kFailed;
  }
}

Stored NotNow(Call& call, std::string_view cache_key, const Value& value, const SetOptions& options,
              TimePoint deadline, const Direct::Wrote& wrote) {
  Session& session = call.session;
  if (session.no_more_waiting) return Stored::kRefused;
  if (wrote.soon) {
    session.room_is_coming = true;
    call.waits = true;
    return Stored::kWaits;
  }
  // It was carried to disk while we waited, or not.
  if (session.pending != nullptr && session.pending->done) {
    for (const auto& one : session.pending->all) {
      if (one->key != cache_key || one->operation.kind != Operation::Kind::kSet) continue;
      return one->operation.status ? Stored::kYes : Stored::kRefused;
    }
  }
  if (session.pending == nullptr || session.pending->done) {
    session.pending = std::make_unique<Pending>();
  }
  auto one = std::make_unique<Pending::One>();
  one->key = cache_key;
  one->value = value.bytes;
  one->operation.kind = Operation::Kind::kSet;
  one->Tell(options);
  if (deadline != TimePoint::max()) {
    one->operation.set.ttl = std::max(deadline - call.state.direct().Now(), Duration(1));
  }
  session.pending->all.push_back(std::move(one));
  call.waits = true;
  return Stored::kWaits;
}

}  // namespace

Stored StoreValue(Call& call, std::string_view cache_key, int db, const Value& value,
                  const SetOptions& options, TimePoint deadline) {
  Session& session = call.session;
  if (value.apart) {
    const Direct::Wrote wrote = call.state.direct().CommitAs(&session.room, options, deadline);
    return Judge(call, cache_key, db, value, options, deadline, wrote);
  }
  if (session.apart_at != 0 && session.room_refused) return Stored::kRefused;
  const Direct::Wrote wrote = call.state.direct().Set(cache_key, value.bytes, options, deadline);
  return Judge(call, cache_key, db, value, options, deadline, wrote);
}

bool DropInstead(Call& call, std::string_view key, std::string_view cache_key) {
  State& state = call.state;
  Session& session = call.session;
  const OnBlocked what = state.settings.on_blocked;
  const bool drop = what == OnBlocked::kDrop ||
                    (what == OnBlocked::kAuto && !session.said_hello && IsLmcacheKey(key));
  if (!drop) {
    state.counters.refused_writes.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  // After an acknowledged write no older value is found, nor half of a pair.
  state.direct().Erase(cache_key);
  if (const std::string pair = PairOf(key); !pair.empty()) {
    std::string buffer;
    state.direct().Erase(CacheKey(session.db, pair, &buffer));
  }
  state.counters.dropped_writes.fetch_add(1, std::memory_order_relaxed);
  return true;
}

bool ChangeDeadline(Call& call, std::string_view cache_key, TimePoint deadline) {
  State& state = call.state;
  if (state.direct().ChangeDeadline(cache_key, deadline) != Direct::Changed::kSetAnew) return true;
  // Somebody reads it, or a disk knows it by its old deadline: the same bytes again.
  Lease lease;
  if (const Read read = ReadValue(call, cache_key, &lease); read != Read::kHit) {
    return read != Read::kWaits;
  }
  SetOptions options;
  options.tokens = lease.tokens();
  options.agent = lease.agent();
  options.meta = lease.meta();
  if (const auto facts = state.direct().FactsOf(cache_key)) options.idle_ttl = facts->idle_ttl;
  const Direct::Wrote wrote = state.direct().Set(cache_key, lease.text(), options, deadline);
  if (wrote.soon && !call.session.no_more_waiting) {
    call.session.room_is_coming = true;
    call.waits = true;
    return false;
  }
  if (!wrote.status || wrote.on_disk || wrote.soon) {
    call.Error("ERR the key's time could not be changed: there is no room to write it anew");
  }
  return true;
}

}  // namespace spillway::server
