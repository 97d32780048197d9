// Keys: whether they are there, and which there are.
#include <algorithm>
#include <limits>
#include <random>
#include <set>

#include <fmt/format.h>

#include "server/commands.h"
#include "wire/glob.h"
#include "wire/request.h"

namespace spillway::server {

namespace {

// Buckets of the index looked at in one event of the cache's strand.
constexpr std::size_t kBucketsAtOnce = 512;

std::int64_t CountKeys(Call& call, bool (*each)(Call& call, std::string_view key)) {
  std::int64_t count = 0;
  std::string buffer;
  for (std::size_t i = 1; i < call.args.size(); ++i) {
    if (call.arg(i).size() > kDbKeyMax) continue;  // Such a key can't be there.
    if (each(call, CacheKey(call.session.db, call.arg(i), &buffer))) ++count;
  }
  return count;
}

void EraseDb(State& state, int db) {
  std::vector<std::string> keys;
  std::uint64_t cursor = 0;
  do {
    keys.clear();
    cursor = state.direct().Scan(cursor, kBucketsAtOnce, [&](std::string_view key) {
      if (DbKeyOf(key).db == db) keys.emplace_back(key);
    });
    for (const std::string& key : keys) state.direct().Erase(key);
  } while (cursor != 0);
}

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
  call.reply.Integer(CountKeys(
      call, [](Call& c, std::string_view key) { return c.state.direct().Contains(key); }));
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
    cursor = call.state.direct().Scan(cursor, kBucketsAtOnce, [&](std::string_view key) {
      const DbKey of = DbKeyOf(key);
      if (of.db != call.session.db || !wire::GlobMatches(pattern, of.key)) return;
      list.Bulk(of.key);
      ++count;
    });
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
  // As Redis: as many keys as asked for, but no more than ten times as many places.
  std::int64_t places = options.count > std::numeric_limits<std::int64_t>::max() / 10
                            ? std::numeric_limits<std::int64_t>::max()
                            : options.count * 10;
  do {
    cursor = call.state.direct().Scan(cursor, [&](std::string_view key) {
      const DbKey of = DbKeyOf(key);
      ++seen;
      if (of.db != call.session.db || !options.strings) return;
      if (options.matches && !wire::GlobMatches(options.pattern, of.key)) return;
      list.Bulk(of.key);
      ++count;
    });
  } while (cursor != 0 && seen < options.count && --places > 0 &&
           found.size() < call.state.settings.output_max);
  call.reply.Array(2);
  call.reply.Bulk(fmt::to_string(cursor));
  call.reply.Array(count);
  call.reply.out() += found;
}

void RandomKey(Call& call) {
  static thread_local std::minstd_rand random(std::random_device{}());  // real world: any key
  if (call.state.SizeOf(call.session.db) == 0) return call.reply.Null();
  std::vector<std::string> keys;
  std::uint64_t cursor = random();
  // From a place at random on, around once.
  for (int rounds = 0; rounds < 2 && keys.empty();) {
    cursor = call.state.direct().Scan(cursor, 4, [&](std::string_view key) {
      const DbKey of = DbKeyOf(key);
      if (of.db == call.session.db) keys.emplace_back(of.key);
    });
    if (cursor == 0) ++rounds;
  }
  keys.empty() ? call.reply.Null() : call.reply.Bulk(keys[random() % keys.size()]);
}

void DbSize(Call& call) {
  call.reply.Integer(static_cast<std::int64_t>(call.state.SizeOf(call.session.db)));
}

void FlushAll(Call& call) {
  if (!FlushMode(call)) return;
  call.state.direct().Clear();
  call.reply.Ok();
}

void FlushDb(Call& call) {
  if (!FlushMode(call)) return;
  const std::size_t ours = call.state.SizeOf(call.session.db);
  if (ours == call.state.cache().size()) {
    call.state.direct().Clear();
  } else {
    EraseDb(call.state, call.session.db);
  }
  call.reply.Ok();
}

// --- OBJECT, MEMORY ---

namespace {
// The key of OBJECT and MEMORY, or an answer.
std::optional<Direct::Facts> FactsArg(Call& call) {
  std::string buffer;
  const std::string_view key = KeyArg(call, 2, &buffer);
  if (key.empty()) return std::nullopt;
  std::optional<Direct::Facts> facts = call.state.direct().FactsOf(key);
  if (!facts) call.reply.Null();
  return facts;
}

// As Redis would keep it: whole numbers as such.
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
