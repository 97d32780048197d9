// SPDX-License-Identifier: Apache-2.0
// Keys: presence, iteration, flush, and attributes.
#include <malloc.h>

#include <algorithm>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "base/mutant.h"
#include "server/commands.h"
#include "server/lmcache_key.h"
#include "wire/glob.h"
#include "wire/request.h"

namespace spillway::server {

namespace {

// Buckets of the index that one event of the cache's strand scans: a long one would delay others.
constexpr std::size_t kBucketsAtOnce = 512;

std::int64_t CountKeys(Call& call, bool (*each)(Call& call, std::string_view key)) {
  std::int64_t count = 0;
  std::string buffer;
  for (std::size_t i = 1; i < call.args.size(); ++i) {
    if (call.arg(i).size() > kDbKeyMax) continue;  // The cache has no such long key.
    if (each(call, CacheKey(call.session.db, call.arg(i), &buffer))) ++count;
  }
  return count;
}

std::uint8_t GroupOf(const Session& session) { return static_cast<std::uint8_t>(session.db); }

bool FlushMode(Call& call) {
  const bool fits =
      call.args.size() == 1 ||
      (call.args.size() == 2 && (SameWord(call.arg(1), "async") || SameWord(call.arg(1), "sync")));
  if (!fits) call.SyntaxError();
  return fits;
}

}  // namespace

void Del(Call& call) {
  call.reply.Integer(
      CountKeys(call, [](Call& c, std::string_view key) { return c.state.direct().Erase(key); }));
}

void Exists(Call& call) {
  call.reply.Integer(CountKeys(call, [](Call& c, std::string_view key) {
    if (!c.state.direct().Contains(key)) return false;
    // LMCache's client reads what it was told of, and never comes back from a miss.
    if (!c.session.said_hello && IsLmcacheKey(DbKeyOf(key).key)) c.state.announced.Keep(key);
    return true;
  }));
}

void Touch(Call& call) {
  call.reply.Integer(
      CountKeys(call, [](Call& c, std::string_view key) { return c.state.cache().Touch(key); }));
}

void Type(Call& call) {
  std::string buffer;
  const std::string_view key = KeyArg(call, 1, &buffer);
  if (!key.empty()) call.reply.Simple(call.state.direct().Contains(key) ? "string" : "none");
}

void Keys(Call& call) {
  const std::string_view pattern = call.arg(1);
  std::string found;
  std::size_t count = 0;
  wire::ReplyWriter list(&found, call.session.protocol);
  std::uint64_t cursor = 0;
  do {
    const auto visit = [&](std::string_view key) {
      const DbKey of = DbKeyOf(key);
      if (of.db != call.session.db || !wire::GlobMatches(pattern, of.key)) return;
      list.Bulk(of.key);
      ++count;
    };
    cursor = call.state.direct().Scan(cursor, kBucketsAtOnce, visit, GroupOf(call.session));
    if (found.size() > call.state.settings.output_max) {
      call.Error("ERR the keys are more than output_max holds; use SCAN");
      return;
    }
  } while (cursor != 0);
  call.reply.Array(count);
  call.reply.out() += found;
}

namespace {

struct ScanOptions {
  std::int64_t count = 10;
  std::string_view pattern;
  bool matches = false;
  bool strings = true;
};

bool ReadScanOptions(Call& call, ScanOptions* options) {
  for (std::size_t i = 2; i < call.args.size(); i += 2) {
    const bool has_value = i + 1 < call.args.size();
    if (SameWord(call.arg(i), "count") && has_value) {
      if (!IntegerArg(call, i + 1, &options->count)) return false;
      if (options->count < 1) {
        call.SyntaxError();
        return false;
      }
    } else if (SameWord(call.arg(i), "match") && has_value) {
      options->pattern = call.arg(i + 1);
      options->matches = options->pattern != "*";
    } else if (SameWord(call.arg(i), "type") && has_value) {
      options->strings = SameWord(call.arg(i + 1), "string");
    } else {
      call.SyntaxError();
      return false;
    }
  }
  return true;
}

bool ReadCursor(std::string_view text, std::uint64_t* cursor) {
  if (text.empty() || text.size() > 20) return false;
  std::uint64_t number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
    const auto digit = static_cast<std::uint64_t>(c - '0');
    if (number > (std::numeric_limits<std::uint64_t>::max() - digit) / 10) return false;
    number = number * 10 + digit;
  }
  *cursor = number;
  return true;
}

}  // namespace

void Scan(Call& call) {
  std::uint64_t cursor = 0;
  if (!ReadCursor(call.arg(1), &cursor)) return call.Error("ERR invalid cursor");
  ScanOptions options;
  if (!ReadScanOptions(call, &options)) return;
  std::string found;
  std::size_t count = 0;
  std::int64_t seen = 0;
  wire::ReplyWriter list(&found, call.session.protocol);
  // As in Redis: up to COUNT keys, from at most ten times as many buckets.
  std::int64_t places = options.count > std::numeric_limits<std::int64_t>::max() / 10
                            ? std::numeric_limits<std::int64_t>::max()
                            : options.count * 10;
  do {
    const auto visit = [&](std::string_view key) {
      const DbKey of = DbKeyOf(key);
      ++seen;
      if (of.db != call.session.db || !options.strings) return;
      if (options.matches && !wire::GlobMatches(options.pattern, of.key)) return;
      list.Bulk(of.key);
      ++count;
    };
    cursor = call.state.direct().Scan(cursor, 1, visit, GroupOf(call.session));
  } while (cursor != 0 && seen < options.count && --places > 0 &&
           found.size() < call.state.settings.output_max);
  call.reply.Array(2);
  call.reply.Bulk(fmt::to_string(cursor));
  call.reply.Array(count);
  call.reply.out() += found;
}

void RandomKey(Call& call) {
  const std::uint8_t group =
      MutantOn(Mutant::kRandomKeyOtherDb) ? std::uint8_t{0} : GroupOf(call.session);
  std::minstd_rand& random = call.state.random;
  const std::uint64_t draw = std::uint64_t{random()} << 32 | random();
  const std::string key = call.state.direct().AnyKey(group, draw);
  key.empty() ? call.reply.Null() : call.reply.Bulk(DbKeyOf(key).key);
}

void DbSize(Call& call) {
  call.reply.Integer(static_cast<std::int64_t>(call.state.SizeOf(call.session.db)));
}

namespace {
// Returns the memory of many keys' names to the system: the allocator keeps small pieces by itself.
void ReturnNames(std::size_t before, std::size_t after) {
  constexpr std::size_t kMany = 16'384;
  if (before - std::min(before, after) >= kMany) malloc_trim(0);
}
}  // namespace

void FlushAll(Call& call) {
  if (!FlushMode(call)) return;
  for (int db = 0; db < kDatabases; ++db) call.state.NoteFlush(db);
  const std::size_t before = call.state.cache().size();
  call.state.direct().Clear();
  ReturnNames(before, call.state.cache().size());
  call.reply.Ok();
}

// Erases all keys of this database, and no others.
void FlushDb(Call& call) {
  if (!FlushMode(call)) return;
  call.state.NoteFlush(call.session.db);
  const std::size_t before = call.state.cache().size();
  if (MutantOn(Mutant::kFlushDbClearsAll)) {
    call.state.direct().Clear();
  } else {
    call.state.direct().ClearGroup(GroupOf(call.session));
  }
  ReturnNames(before, call.state.cache().size());
  call.reply.Ok();
}

// --- OBJECT, MEMORY ---

namespace {
// Facts of the key that OBJECT or MEMORY names. Empty: a reply has been written.
std::optional<Direct::Facts> FactsArg(Call& call) {
  std::string buffer;
  const std::string_view key = KeyArg(call, 2, &buffer);
  if (key.empty()) return std::nullopt;
  std::optional<Direct::Facts> facts = call.state.direct().FactsOf(key);
  if (!facts) call.reply.Null();
  return facts;
}

// Whether Redis would store the value as an integer.
bool IsNumber(std::string_view text, std::int64_t* number) {
  return text.size() <= 20 && wire::ReadInteger(text, number);
}

bool SmallValue(Call& call, std::string* value) {
  std::string buffer;
  const std::string_view key = KeyArg(call, 2, &buffer);
  Lease lease;
  if (key.empty() || ReadValue(call, key, &lease) != Read::kHit) return false;
  *value = lease.text().substr(0, 64);
  return true;
}
}  // namespace

void ObjectEncoding(Call& call) {
  const auto facts = FactsArg(call);
  if (!facts) return;
  constexpr Bytes kEmbeddedMax = 44;
  if (facts->bytes > kEmbeddedMax) return call.reply.Bulk("raw");
  std::string value;
  if (!SmallValue(call, &value)) {
    if (!call.waits && !call.failed) call.reply.Null();
    return;
  }
  std::int64_t number = 0;
  call.reply.Bulk(IsNumber(value, &number) ? "int" : "embstr");
}

void ObjectFreq(Call& call) {
  if (!FactsArg(call)) return;
  call.Error(
      "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that "
      "when switching between policies at runtime LRU and LFU data will take some time to adjust.");
}

void ObjectIdleTime(Call& call) {
  const auto facts = FactsArg(call);
  if (!facts) return;
  call.reply.Integer(std::max<std::int64_t>(
      0, std::chrono::duration_cast<std::chrono::seconds>(facts->idle).count()));
}

void ObjectRefCount(Call& call) {
  const auto facts = FactsArg(call);
  if (!facts) return;
  call.reply.Integer(1);
}

void MemoryUsage(Call& call) {
  for (std::size_t i = 3; i < call.args.size(); ++i) {
    std::int64_t samples = 0;
    if (!SameWord(call.arg(i), "samples") || i + 1 >= call.args.size()) return call.SyntaxError();
    if (!IntegerArg(call, ++i, &samples)) return;
    if (samples < 0) return call.SyntaxError();
  }
  const auto facts = FactsArg(call);
  if (facts) call.reply.Integer(static_cast<std::int64_t>(facts->held));
}

}  // namespace spillway::server
