// SPDX-License-Identifier: Apache-2.0
// Strings: reading and writing values.
#include <algorithm>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "server/commands.h"
#include "server/keys_of.h"
#include "server/lmcache_key.h"
#include "server/writes.h"
#include "wire/request.h"

namespace spillway::server {

namespace {

// The options of SET and GETEX.
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

// As in Redis an option may be repeated, and the last one counts.
bool ReadExtra(Call& call, bool of_set, std::size_t* i, Extras* extras) {
  const std::string_view word = call.arg(*i);
  const bool timed = !extras->expire.empty() || extras->keep_ttl || extras->persist;
  if (IsExpire(word)) {
    const bool again = !extras->expire.empty() && SameWord(extras->expire, word);
    if ((timed && !again) || *i + 1 >= call.args.size()) return false;
    extras->expire = word;
    extras->expire_text = call.arg(++*i);
    return true;
  }
  if (!of_set) {
    if (!SameWord(word, "persist") || (timed && !extras->persist)) return false;
    return extras->persist = true;
  }
  if (SameWord(word, "nx") && !extras->only_there) return extras->only_new = true;
  if (SameWord(word, "xx") && !extras->only_new) return extras->only_there = true;
  if (SameWord(word, "get")) return extras->get = true;
  if (SameWord(word, "keepttl") && (!timed || extras->keep_ttl)) return extras->keep_ttl = true;
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

// Options derived from a value's key and bytes alone. `parent` holds the key of the other half of a
// pair: the metadata entry is the parent of the bytes it describes.
SetOptions OptionsFor(Call& call, std::string_view key, std::string_view bytes,
                      std::string* parent) {
  SetOptions options;
  options.idle_ttl = false;  // Keys of Redis expire by EXPIRE only.
  if (!key.ends_with("metadata") || !IsMetadata(key)) return options;
  std::string buffer;
  *parent = CacheKey(call.session.db, PairOf(key), &buffer);
  options.parent = *parent;
  options.tokens = TokensIn(bytes).value_or(0);
  return options;
}

// The write of argument `value_at` under the key in argument `key_at`.
struct KeyWrite {
  KeyWrite(Call& call, std::size_t key_at, std::string_view key, std::size_t value_at,
           TimePoint deadline = TimePoint::max())
      : write{key, value_at, OptionsFor(call, call.arg(key_at), BytesOf(call, value_at), &parent),
              deadline} {}
  std::string parent;
  Write write;
};

// Of a write that ends in +OK.
void AnswerOk(Call& call, Stored stored) {
  if (stored == Stored::kYes) return call.reply.Ok();
  if (stored != Stored::kRefused) return;
  std::string buffer;
  const std::string_view key = KeyArg(call, 1, &buffer);
  DropInstead(call, call.arg(1), key) ? call.reply.Ok() : call.Error(kOutOfMemory);
}

// Of a write that tells more than that it was done, and so can't be dropped. False: it
// was not, and that has been answered.
bool IsStored(Call& call, Stored stored) {
  if (stored == Stored::kRefused) Refuse(call);
  return stored == Stored::kYes;
}

void ReplyOrNull(Call& call, Lease lease) {
  lease ? ReplyValue(call, std::move(lease)) : call.reply.Null();
}

// A value that is answered once the write of its key is done: a small one is copied,
// so that the write may take its place meanwhile.
class OldValue {
 public:
  OldValue() = default;
  explicit OldValue(Lease lease) : there_(!!lease), lease_(std::move(lease)) {
    if (!there_ || lease_.size() > kKiB) return;
    small_ = lease_.text();
    lease_.Release();
  }
  bool there() const { return there_; }
  // Copies it, so that the new one may have its place. False: it is too large for that,
  // or has been.
  bool LetGo(Call& call) {
    if (!lease_ || lease_.size() > call.state.settings.output_max / 2) return false;
    small_ = lease_.text();
    lease_.Release();
    return true;
  }
  void Reply(Call& call) {
    if (!there_) return call.reply.Null();
    lease_ ? ReplyValue(call, std::move(lease_)) : call.reply.Bulk(small_);
  }

 private:
  bool there_ = false;
  std::string small_;
  Lease lease_;
};

// A write that answers the value before, in which `old` is kept meanwhile.
void Exchange(Call& call, const Write& write, OldValue old, bool get) {
  Stored stored = TryWrite(call, write);
  const bool lacks_room = stored == Stored::kRefused || stored == Stored::kRoom;
  if (lacks_room && old.LetGo(call)) stored = TryWrite(call, write);
  auto then = [get, old = std::move(old)](Call& done, Stored result) mutable {
    if (!IsStored(done, result)) return;
    get ? old.Reply(done) : done.reply.Ok();
  };
  Waits(stored) ? AwaitWrite(call, stored, write, std::move(then)) : then(call, stored);
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
  const KeyWrite of(call, 1, key, 2, deadline);
  if (!extras.only_new && !extras.only_there && !extras.get) {
    return DoWrite(call, of.write, AnswerOk);
  }
  Lease lease;
  if (extras.get) {
    const Read read = ReadValue(call, key, &lease);
    if (read == Read::kWaits || read == Read::kFailed) return;
  }
  OldValue old(std::move(lease));
  const bool there = extras.get ? old.there() : call.state.direct().Contains(key);
  if ((extras.only_new && there) || (extras.only_there && !there)) {
    call.session.room.Abort();
    extras.get ? old.Reply(call) : call.reply.Null();
    return;
  }
  Exchange(call, of.write, std::move(old), extras.get);
}

void SetNx(Call& call) {
  std::string buffer;
  const std::string_view key = KeyArg(call, 1, &buffer);
  if (key.empty()) return;
  if (call.state.direct().Contains(key)) return call.reply.Integer(0);
  DoWrite(call, KeyWrite(call, 1, key, 2).write, [](Call& done, Stored stored) {
    if (IsStored(done, stored)) done.reply.Integer(1);
  });
}

namespace {
void SetFor(Call& call, std::string_view option) {
  std::int64_t unix_ms = 0;
  if (!ExpireOption(call, option, call.arg(2), &unix_ms)) return;
  std::string buffer;
  const std::string_view key = KeyArg(call, 1, &buffer);
  if (key.empty()) return;
  DoWrite(call, KeyWrite(call, 1, key, 3, call.state.FromUnixMs(unix_ms)).write, AnswerOk);
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
  Exchange(call, KeyWrite(call, 1, key, 2).write, OldValue(std::move(old)), true);
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
  if (!extras.expire.empty() && unix_ms <= call.state.UnixMs()) {
    call.state.direct().Erase(key);
  } else if (!extras.expire.empty()) {
    ChangeDeadline(call, key, call.state.FromUnixMs(unix_ms));
  } else if (extras.persist) {
    ChangeDeadline(call, key, TimePoint::max());
  }
  ReplyValue(call, std::move(lease));
}

namespace {

void GetTheRest(Call& call, std::size_t i);

// The client reads first. A slow client holds no keys meanwhile.
void PauseGets(Call& call, std::size_t i) {
  call.state.key_locks.Release(call.session.id);
  call.Suspend(Wait::kOutput, [i](Call& later) { GetTheRest(later, i); });
}

// The values of word `i` and behind, each as soon as it can be read: for those that have
// no room in memory together.
void GetTheRest(Call& call, std::size_t i) {
  constexpr std::size_t kAtOnce = 64;
  Session& session = call.session;
  std::string buffer;
  bool any = false;
  for (; i < call.args.size(); ++i) {
    if (session.out.over()) return PauseGets(call, i);
    Lease lease;
    const Read read = ReadValue(call, KeyArg(call, i, &buffer), &lease);
    if (read == Read::kFailed) continue;  // The error stands in its place.
    if (read != Read::kWaits) {
      ReplyOrNull(call, std::move(lease));
      any = true;
      continue;
    }
    const std::size_t end = session.lacked_room ? 0 : std::min(i + kAtOnce, call.args.size());
    session.held.clear();
    for (std::size_t j = i + 1; j < end; ++j) {
      const std::string_view key = KeyArg(call, j, &buffer);
      if (call.state.direct().Contains(key)) session.wanted.emplace_back(key);
    }
    session.suspended.then = [i](Call& later) { GetTheRest(later, i); };
    if (any) session.suspended.bound = {};  // The bound is on each, not on all.
    return;
  }
}

}  // namespace

void MGet(Call& call) {
  std::vector<Lease> leases(call.args.size() - 1);
  std::string buffer;
  for (std::size_t i = 1; i < call.args.size(); ++i) {
    const std::string_view key = KeyArg(call, i, &buffer);
    if (key.empty()) return;
    // All values in lower tiers are fetched at once.
    if (ReadValue(call, key, &leases[i - 1]) == Read::kFailed) return;
  }
  if (call.waits && !call.session.lacked_room) return;
  call.reply.Array(leases.size());
  if (call.waits) {  // They have no room in memory together.
    call.waits = false;
    call.session.wanted.clear();
    leases.clear();
    HoldKeys(call);  // Until the client has to read first they are as they were at once.
    return GetTheRest(call, 1);
  }
  for (std::size_t i = 0; i < leases.size(); ++i) {
    ReplyOrNull(call, std::move(leases[i]));
    if (call.session.out.held() <= call.state.settings.output_max / 2) continue;
    leases.clear();
    return PauseGets(call, i + 2);
  }
}

namespace {
bool OddPairs(Call& call) {
  if (call.args.size() % 2 == 1) return false;
  call.Error(fmt::format("ERR wrong number of arguments for '{}' command", call.command.name));
  return true;
}
}  // namespace

namespace {

// The write of the pair at argument `i` ended with `stored`. False: the command has been answered.
bool PairIsSet(Call& call, std::size_t i, Stored stored) {
  if (stored == Stored::kYes) return true;
  if (stored == Stored::kFailed) return false;
  std::string buffer;
  if (DropInstead(call, call.arg(i), KeyArg(call, i, &buffer))) return true;
  call.Error(kOutOfMemory);
  return false;
}

// All or none: erases the pairs before argument `i`.
bool NewPairIsSet(Call& call, std::size_t i, Stored stored) {
  if (stored == Stored::kYes) return true;
  std::string buffer;
  for (std::size_t done = 1; done < i; done += 2) {
    call.state.direct().Erase(KeyArg(call, done, &buffer));
  }
  if (stored == Stored::kRefused) Refuse(call);
  return false;
}

using PairSet = bool (*)(Call& call, std::size_t i, Stored stored);

// Sets the pairs from argument `i` on, then calls `answer`.
void SetPairs(Call& call, std::size_t i, PairSet is_set, void (*answer)(Call& call)) {
  std::string buffer;
  for (; i < call.args.size(); i += 2) {
    const std::string_view key = KeyArg(call, i, &buffer);
    const KeyWrite of(call, i, key, i + 1);
    const Stored stored = TryWrite(call, of.write);
    if (Waits(stored)) {
      if (i > 1) call.session.half_done = true;
      return AwaitWrite(call, stored, of.write, [=](Call& later, Stored then) {
        if (is_set(later, i, then)) SetPairs(later, i + 2, is_set, answer);
      });
    }
    if (!is_set(call, i, stored)) return;
  }
  answer(call);
}

}  // namespace

void MSet(Call& call) {
  if (OddPairs(call)) return;
  std::string buffer;
  for (std::size_t i = 1; i < call.args.size(); i += 2) {
    if (KeyArg(call, i, &buffer).empty()) return;
  }
  SetPairs(call, 1, PairIsSet, [](Call& done) { done.reply.Ok(); });
}

void MSetNx(Call& call) {
  if (OddPairs(call)) return;
  std::string buffer;
  for (std::size_t i = 1; i < call.args.size(); i += 2) {
    const std::string_view key = KeyArg(call, i, &buffer);
    if (key.empty()) return;
    if (call.state.direct().Contains(key)) return call.reply.Integer(0);
  }
  SetPairs(call, 1, NewPairIsSet, [](Call& done) { done.reply.Integer(1); });
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
  ReplyRange(call, std::move(lease), static_cast<std::size_t>(start),
             static_cast<std::size_t>(end - start + 1));
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
