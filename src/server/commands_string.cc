// Strings: the values themselves.
#include <algorithm>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "server/commands.h"
#include "server/lmcache_key.h"
#include "wire/request.h"

namespace spillway::server {

namespace {

// What SET and GETEX may say behind the key.
struct Extras {
  bool only_new = false;
  bool only_there = false;
  bool get = false;
  bool keep_ttl = false;
  bool persist = false;
  std::string_view expire;  // "EX", "PX", "EXAT" or "PXAT".
  std::string_view expire_text;
};

bool IsExpire(std::string_view word) {
  return SameWord(word, "ex") || SameWord(word, "px") || SameWord(word, "exat") ||
         SameWord(word, "pxat");
}

bool ReadExtra(Call& call, bool of_set, std::size_t* i, Extras* extras) {
  const std::string_view word = call.arg(*i);
  const bool timed = !extras->expire.empty() || extras->keep_ttl || extras->persist;
  if (IsExpire(word)) {
    if (timed || *i + 1 >= call.args.size()) return false;
    extras->expire = word;
    extras->expire_text = call.arg(++*i);
    return true;
  }
  if (!of_set) {
    extras->persist = SameWord(word, "persist") && !timed;
    return extras->persist;
  }
  if (SameWord(word, "nx") && !extras->only_there) return extras->only_new = true;
  if (SameWord(word, "xx") && !extras->only_new) return extras->only_there = true;
  if (SameWord(word, "get")) return extras->get = true;
  if (SameWord(word, "keepttl") && !timed) return extras->keep_ttl = true;
  return false;
}

bool ReadExtras(Call& call, std::size_t from, bool of_set, Extras* extras) {
  for (std::size_t i = from; i < call.args.size(); ++i) {
    if (ReadExtra(call, of_set, &i, extras)) continue;
    call.SyntaxError();
    return false;
  }
  return true;
}

// What is known of a value by its key and bytes alone. `parent` holds the key of
// the other half of a pair: metadata goes before the bytes it speaks of.
SetOptions OptionsFor(Call& call, std::string_view key, std::string_view bytes,
                      std::string* parent) {
  SetOptions options;
  options.idle_ttl = false;  // Redis keys end by their own EXPIRE only.
  if (!key.ends_with("metadata") || !IsMetadata(key)) return options;
  std::string buffer;
  *parent = CacheKey(call.session.db, PairOf(key), &buffer);
  options.parent = *parent;
  options.tokens = TokensIn(bytes).value_or(0);
  return options;
}

Stored Store(Call& call, std::size_t key_at, std::string_view key, const Value& value,
             TimePoint deadline) {
  std::string parent;
  const SetOptions options = OptionsFor(call, call.arg(key_at), value.bytes, &parent);
  return StoreValue(call, key, call.session.db, value, options, deadline);
}

// The plain write that ends in +OK.
void StoreAndAnswer(Call& call, std::string_view key, std::size_t value_at, TimePoint deadline) {
  switch (Store(call, 1, key, ValueArg(call, value_at), deadline)) {
    case Stored::kYes:
      call.reply.Ok();
      return;
    case Stored::kRefused:
      DropInstead(call, call.arg(1), key) ? call.reply.Ok() : call.Error(kOutOfMemory);
      return;
    case Stored::kWaits:
    case Stored::kFailed:
      return;
  }
}

// Of a write that tells more than that it was done: it can't be dropped.
bool StoreOrError(Call& call, std::string_view key, std::size_t value_at, TimePoint deadline) {
  switch (Store(call, 1, key, ValueArg(call, value_at), deadline)) {
    case Stored::kYes:
      return true;
    case Stored::kRefused:
      call.state.counters.refused_writes.fetch_add(1, std::memory_order_relaxed);
      call.Error(kOutOfMemory);
      return false;
    case Stored::kWaits:
    case Stored::kFailed:
      break;
  }
  return false;
}

void ReplyOrNull(Call& call, Lease lease) {
  lease ? ReplyValue(call, std::move(lease)) : call.reply.Null();
}

}  // namespace

void Get(Call& call) {
  std::string buffer;
  const std::string_view key = KeyArg(call, 1, &buffer);
  if (key.empty()) return;
  Lease lease;
  const Read read = ReadValue(call, key, &lease);
  if (read == Read::kHit || read == Read::kMiss) ReplyOrNull(call, std::move(lease));
}

void Set(Call& call) {
  Extras extras;
  if (call.args.size() > 3 && !ReadExtras(call, 3, true, &extras)) return;
  std::int64_t unix_ms = 0;
  if (!extras.expire.empty() && !ExpireOption(call, extras.expire, extras.expire_text, &unix_ms)) {
    return;
  }
  std::string buffer;
  const std::string_view key = KeyArg(call, 1, &buffer);
  if (key.empty()) return;
  TimePoint deadline = TimePoint::max();
  if (!extras.expire.empty()) deadline = call.state.FromUnixMs(unix_ms);
  if (extras.keep_ttl) deadline = call.state.direct().DeadlineOf(key).value_or(TimePoint::max());
  if (!extras.only_new && !extras.only_there && !extras.get) {
    StoreAndAnswer(call, key, 2, deadline);
    return;
  }
  Lease old;
  if (extras.get) {
    const Read read = ReadValue(call, key, &old);
    if (read == Read::kWaits || read == Read::kFailed) return;
  }
  const bool there = extras.get ? !!old : call.state.direct().Contains(key);
  if ((extras.only_new && there) || (extras.only_there && !there)) {
    call.session.room.Abort();
    extras.get ? ReplyOrNull(call, std::move(old)) : call.reply.Null();
    return;
  }
  if (!StoreOrError(call, key, 2, deadline)) return;
  extras.get ? ReplyOrNull(call, std::move(old)) : call.reply.Ok();
}

void SetNx(Call& call) {
  std::string buffer;
  const std::string_view key = KeyArg(call, 1, &buffer);
  if (key.empty()) return;
  if (call.state.direct().Contains(key)) {
    call.reply.Integer(0);
  } else if (StoreOrError(call, key, 2, TimePoint::max())) {
    call.reply.Integer(1);
  }
}

namespace {
void SetFor(Call& call, std::string_view option) {
  std::int64_t unix_ms = 0;
  if (!ExpireOption(call, option, call.arg(2), &unix_ms)) return;
  std::string buffer;
  const std::string_view key = KeyArg(call, 1, &buffer);
  if (!key.empty()) StoreAndAnswer(call, key, 3, call.state.FromUnixMs(unix_ms));
}
}  // namespace

void SetEx(Call& call) { SetFor(call, "ex"); }
void PSetEx(Call& call) { SetFor(call, "px"); }

void GetSet(Call& call) {
  std::string buffer;
  const std::string_view key = KeyArg(call, 1, &buffer);
  if (key.empty()) return;
  Lease old;
  const Read read = ReadValue(call, key, &old);
  if (read == Read::kWaits || read == Read::kFailed) return;
  if (StoreOrError(call, key, 2, TimePoint::max())) ReplyOrNull(call, std::move(old));
}

void GetDel(Call& call) {
  std::string buffer;
  const std::string_view key = KeyArg(call, 1, &buffer);
  if (key.empty()) return;
  Lease lease;
  const Read read = ReadValue(call, key, &lease);
  if (read == Read::kWaits || read == Read::kFailed) return;
  if (lease) call.state.direct().Erase(key);
  ReplyOrNull(call, std::move(lease));
}

void GetEx(Call& call) {
  Extras extras;
  if (!ReadExtras(call, 2, false, &extras)) return;
  std::string buffer;
  const std::string_view key = KeyArg(call, 1, &buffer);
  if (key.empty()) return;
  Lease lease;
  const Read read = ReadValue(call, key, &lease);
  if (read == Read::kWaits || read == Read::kFailed) return;
  if (!lease) {
    call.reply.Null();
    return;
  }
  std::int64_t unix_ms = 0;
  if (!extras.expire.empty() && !ExpireOption(call, extras.expire, extras.expire_text, &unix_ms)) {
    return;
  }
  // A small value is copied first, so that nobody holds it while it is changed.
  std::string small;
  const bool is_small = lease.size() <= kKiB;
  if (is_small) small = lease.text();
  if (is_small) lease.Release();
  bool done = true;
  if (!extras.expire.empty() && unix_ms <= call.state.UnixMs()) {
    call.state.direct().Erase(key);
  } else if (!extras.expire.empty()) {
    done = ChangeDeadline(call, key, call.state.FromUnixMs(unix_ms));
  } else if (extras.persist) {
    done = ChangeDeadline(call, key, TimePoint::max());
  }
  if (!done || call.failed) return;
  is_small ? call.reply.Bulk(small) : ReplyValue(call, std::move(lease));
}

void MGet(Call& call) {
  std::vector<Lease> leases(call.args.size() - 1);
  std::string buffer;
  for (std::size_t i = 1; i < call.args.size(); ++i) {
    const std::string_view key = KeyArg(call, i, &buffer);
    if (key.empty()) return;
    // All that have to be brought up are asked for at once.
    if (ReadValue(call, key, &leases[i - 1]) == Read::kFailed) return;
  }
  if (call.waits) return;
  call.reply.Array(leases.size());
  for (Lease& lease : leases) {
    ReplyOrNull(call, std::move(lease));
    if (call.session.out.held() <= call.state.settings.output_max) continue;
    call.session.out.Clear();
    call.session.close_after_replies = true;
    call.Error("ERR the reply is larger than output_max");
    return;
  }
}

namespace {
bool OddPairs(Call& call) {
  if (call.args.size() % 2 == 1) return false;
  call.Error(fmt::format("ERR wrong number of arguments for '{}' command", call.command.name));
  return true;
}
}  // namespace

void MSet(Call& call) {
  if (OddPairs(call)) return;
  std::string buffer;
  for (std::size_t i = 1; i < call.args.size(); i += 2) {
    if (KeyArg(call, i, &buffer).empty()) return;
  }
  for (std::size_t i = 1; i < call.args.size(); i += 2) {
    const std::string_view key = KeyArg(call, i, &buffer);
    const Stored stored = Store(call, i, key, {call.arg(i + 1), false}, TimePoint::max());
    if (stored == Stored::kRefused && !DropInstead(call, call.arg(i), key)) {
      call.Error(kOutOfMemory);
      return;
    }
    if (stored == Stored::kWaits || stored == Stored::kFailed) return;
  }
  call.reply.Ok();
}

void MSetNx(Call& call) {
  if (OddPairs(call)) return;
  std::string buffer;
  for (std::size_t i = 1; i < call.args.size(); i += 2) {
    const std::string_view key = KeyArg(call, i, &buffer);
    if (key.empty()) return;
    if (!call.state.direct().Contains(key)) continue;
    call.reply.Integer(0);
    return;
  }
  std::vector<std::string> stored_keys;
  for (std::size_t i = 1; i < call.args.size(); i += 2) {
    const std::string_view key = KeyArg(call, i, &buffer);
    const Stored stored = Store(call, i, key, {call.arg(i + 1), false}, TimePoint::max());
    if (stored == Stored::kYes) {
      stored_keys.emplace_back(key);
      continue;
    }
    // All or none.
    for (const std::string& done : stored_keys) call.state.direct().Erase(done);
    if (stored == Stored::kRefused) call.Error(kOutOfMemory);
    return;
  }
  call.reply.Integer(1);
}

void StrLen(Call& call) {
  std::string buffer;
  const std::string_view key = KeyArg(call, 1, &buffer);
  if (key.empty()) return;
  const auto facts = call.state.direct().FactsOf(key);
  call.reply.Integer(facts ? static_cast<std::int64_t>(facts->bytes) : 0);
}

void GetRange(Call& call) {
  std::int64_t start = 0;
  std::int64_t end = 0;
  if (!IntegerArg(call, 2, &start) || !IntegerArg(call, 3, &end)) return;
  std::string buffer;
  const std::string_view key = KeyArg(call, 1, &buffer);
  if (key.empty()) return;
  Lease lease;
  const Read read = ReadValue(call, key, &lease);
  if (read == Read::kWaits || read == Read::kFailed) return;
  const auto size = static_cast<std::int64_t>(lease ? lease.size() : 0);
  if (start < 0 && end < 0 && start > end) {
    call.reply.Bulk({});
    return;
  }
  if (start < 0) start = std::max<std::int64_t>(start + size, 0);
  if (end < 0) end = std::max<std::int64_t>(end + size, 0);
  end = std::min(end, size - 1);
  if (start > end || size == 0) {
    call.reply.Bulk({});
    return;
  }
  call.reply.Bulk(lease.text().substr(static_cast<std::size_t>(start),
                                      static_cast<std::size_t>(end - start + 1)));
}

void GetBit(Call& call) {
  std::int64_t offset = 0;
  constexpr std::int64_t kBitsMax = std::int64_t{512} * 1024 * 1024 * 8;
  if (!wire::ReadInteger(call.arg(2), &offset) || offset < 0 || offset >= kBitsMax) {
    call.Error("ERR bit offset is not an integer or out of range");
    return;
  }
  std::string buffer;
  const std::string_view key = KeyArg(call, 1, &buffer);
  if (key.empty()) return;
  Lease lease;
  const Read read = ReadValue(call, key, &lease);
  if (read == Read::kWaits || read == Read::kFailed) return;
  const auto byte = static_cast<std::size_t>(offset / 8);
  if (!lease || byte >= lease.size()) {
    call.reply.Integer(0);
    return;
  }
  const auto bits = static_cast<unsigned char>(lease.text()[byte]);
  call.reply.Integer((bits >> (7 - offset % 8)) & 1);
}

void NotOffered(Call& call) {
  call.Error(fmt::format(
      "ERR '{}' is not offered: a value never changes in place here, nor does it move to another "
      "key; SET the whole value",
      call.command.name));
}

}  // namespace spillway::server
