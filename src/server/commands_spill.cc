// SPDX-License-Identifier: Apache-2.0
// SPILL.*: commands beyond those of Redis.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/mutant.h"
#include "base/parse.h"
#include "base/printable.h"
#include "cache/stats_json.h"
#include "server/commands.h"
#include "server/writes.h"
#include "wire/request.h"

namespace spillway::server {

namespace {

constexpr Duration kTtlMax = std::chrono::hours(24 * 365 * 100);
constexpr std::size_t kWhyMax = 240;  // Characters of a message that repeats what a client sent.

struct SpillOptions {
  SetOptions set;
  std::string parent;  // As the cache knows it.
  std::optional<Duration> ttl;
};

TimePoint EndOf(Call& call, const std::optional<Duration>& ttl) {
  return ttl ? call.state.direct().Now() + *ttl : TimePoint::max();
}

bool ReadHint(std::string_view word, Hint* hint) {
  if (SameWord(word, "again")) return (*hint = Hint::kAgain), true;
  if (SameWord(word, "done")) return (*hint = Hint::kDone), true;
  if (SameWord(word, "none")) return (*hint = Hint::kNone), true;
  return false;
}

// Reads an option about the next use: HINT, ETA, STEP, RECOMPUTE. kOther: `word` is none of them.
enum class Word : std::uint8_t { kRead, kBad, kOther };

Word ReadAdvice(Call& call, std::string_view word, std::string_view value, SetOptions* said) {
  if (SameWord(word, "hint")) {
    if (ReadHint(value, &said->hint)) return Word::kRead;
    call.Error(fmt::format("ERR hint: '{}' is not again, done or none", value));
    return Word::kBad;
  }
  if (SameWord(word, "step")) {
    said->step = value;
    if (value.size() <= kAgentBytesMax) return Word::kRead;
    call.Error(fmt::format("ERR step: a name of {} bytes; at most {} are allowed", value.size(),
                           kAgentBytesMax));
    return Word::kBad;
  }
  const bool is_eta = SameWord(word, "eta");
  if (!is_eta && !SameWord(word, "recompute")) return Word::kOther;
  const Result<Duration> time = ParseDuration(value);
  if (!time) {
    call.Error(fmt::format("ERR {}: {}", Lower(word), Printable(time.error().message, kWhyMax)));
    return Word::kBad;
  }
  (is_eta ? said->eta : said->recompute) = std::min(*time, kTtlMax);
  return Word::kRead;
}

bool ReadSpillOptions(Call& call, std::size_t from, SpillOptions* options) {
  for (std::size_t i = from; i < call.args.size(); i += 2) {
    const std::string_view word = call.arg(i);
    if (i + 1 >= call.args.size()) {
      call.Error(fmt::format("ERR {} needs a value", Lower(word)));
      return false;
    }
    const std::string_view value = call.arg(i + 1);
    std::int64_t number = 0;
    if (SameWord(word, "tokens")) {
      if (!IntegerArg(call, i + 1, &number)) return false;
      options->set.tokens = number;
    } else if (SameWord(word, "agent")) {
      options->set.agent = value;
    } else if (SameWord(word, "meta")) {
      options->set.meta = value;
    } else if (SameWord(word, "parent")) {
      std::string buffer;
      options->parent = CacheKey(call.session.db, value, &buffer);
      options->set.parent = options->parent;
    } else if (SameWord(word, "ttl")) {
      const Result<Duration> ttl = ParseDuration(value);
      if (!ttl || *ttl <= Duration::zero()) {
        call.Error(fmt::format("ERR ttl: {}", ttl ? "it must be longer than 0"
                                                  : Printable(ttl.error().message, kWhyMax)));
        return false;
      }
      options->ttl = std::min(*ttl, kTtlMax);
    } else {
      const Word read = ReadAdvice(call, word, value, &options->set);
      if (read == Word::kOther) {
        call.Error(
            fmt::format("ERR '{}' is no option; known: TOKENS, AGENT, PARENT, META, TTL, HINT, "
                        "ETA, STEP, RECOMPUTE",
                        Lower(word)));
      }
      if (read != Word::kRead) return false;
    }
  }
  return true;
}

// The options of a read or a touch.
bool ReadAllAdvice(Call& call, std::size_t from, SetOptions* said) {
  for (std::size_t i = from; i < call.args.size(); i += 2) {
    if (i + 1 >= call.args.size()) {
      call.SyntaxError();
      return false;
    }
    const bool known = !SameWord(call.arg(i), "recompute");
    const Word read = known ? ReadAdvice(call, call.arg(i), call.arg(i + 1), said) : Word::kOther;
    if (read == Word::kOther) {
      call.Error(
          fmt::format("ERR '{}' is no option here; known: HINT again, done or none; ETA and "
                      "STEP",
                      Lower(call.arg(i))));
    }
    if (read != Word::kRead) return false;
  }
  return true;
}

void AnswerStored(Call& call, Stored stored) {
  if (stored == Stored::kYes) call.reply.Ok();
  if (stored == Stored::kRefused) Refuse(call);
}

// The cache keys of all arguments from `from` on.
std::vector<std::string> KeysFrom(Call& call, std::size_t from) {
  std::vector<std::string> keys;
  std::string buffer;
  for (std::size_t i = from; i < call.args.size(); ++i) {
    keys.emplace_back(CacheKey(call.session.db, call.arg(i), &buffer));
  }
  return keys;
}

}  // namespace

void SpillSet(Call& call) {
  SpillOptions options;
  if (!ReadSpillOptions(call, 3, &options)) return;
  std::string buffer;
  const std::string_view key = KeyArg(call, 1, &buffer);
  if (key.empty()) return;
  DoWrite(call, {key, 2, options.set, EndOf(call, options.ttl)}, AnswerStored);
}

// The value, its tokens, generation, agent and meta.
void SpillGet(Call& call) {
  std::string buffer;
  const std::string_view key = KeyArg(call, 1, &buffer);
  if (key.empty()) return;
  std::int64_t offset = 0;
  std::int64_t bytes = -1;
  std::size_t from = 2;
  if (call.args.size() >= 5 && SameWord(call.arg(2), "range")) {
    if (!IntegerArg(call, 3, &offset) || !IntegerArg(call, 4, &bytes)) return;
    if (offset < 0 || bytes < 0) return call.Error("ERR RANGE needs an offset and a length from 0");
    from = 5;
  }
  SetOptions said;
  if (!ReadAllAdvice(call, from, &said)) return;
  Lease lease;
  const Read read = ReadValue(call, key, &lease);
  if (read == Read::kWaits || read == Read::kFailed) return;
  if (!lease) return call.reply.Null();
  call.state.direct().Advise(key, said);
  const bool range = bytes >= 0;
  call.reply.Map(range ? 6 : 5);
  call.reply.Bulk("tokens");
  call.reply.Integer(lease.tokens());
  call.reply.Bulk("generation");
  call.reply.Integer(static_cast<std::int64_t>(lease.generation()));
  call.reply.Bulk("agent");
  call.reply.Bulk(lease.agent());
  call.reply.Bulk("meta");
  call.reply.Bulk(lease.meta());
  if (range) {
    call.reply.Bulk("bytes");
    call.reply.Integer(static_cast<std::int64_t>(lease.size()));
  }
  call.reply.Bulk("value");
  if (!range) return ReplyValue(call, std::move(lease));
  const auto first = std::min<std::size_t>(static_cast<std::size_t>(offset), lease.size());
  ReplyRange(call, std::move(lease), first, static_cast<std::size_t>(bytes));
}

void SpillMatch(Call& call) {
  const std::vector<std::string> keys = KeysFrom(call, 1);
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  call.reply.Integer(static_cast<std::int64_t>(call.state.cache().Match(views)));
}

void SpillTouch(Call& call) {
  SetOptions said;
  if (!ReadAllAdvice(call, 2, &said)) return;
  std::string buffer;
  const std::string_view key = KeyArg(call, 1, &buffer);
  if (key.empty()) return;
  call.reply.Integer(call.state.cache().Touch(key, said.hint, said.eta, said.step) ? 1 : 0);
}

void SpillPrefetch(Call& call) {
  const std::vector<std::string> keys = KeysFrom(call, 1);
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  call.reply.Integer(
      static_cast<std::int64_t>(call.state.cache().Prefetch(views.data(), views.size())));
}

void SpillExplain(Call& call) {
  std::string buffer;
  const std::string_view key = KeyArg(call, 1, &buffer);
  if (!key.empty()) call.reply.Verbatim(call.state.cache().Explain(key));
}

// SPILL.STATS [JSON]: the main counters, or all statistics.
void SpillStats(Call& call) {
  const Stats stats = call.state.cache().stats();
  const State::Counters& c = call.state.counters;
  if (call.args.size() > 1) {
    if (call.args.size() > 2 || !SameWord(call.arg(1), "json")) return call.SyntaxError();
    auto json = nlohmann::ordered_json::parse(StatsJson(stats));
    json["mode"] = std::string(Name(call.state.cache().mode()));
    json["blocked"] = call.state.cache().is_blocked();
    json["clients"] = call.state.connected.load();
    json["dropped_writes"] = c.dropped_writes.load();
    return call.reply.Bulk(json.dump());
  }
  const std::pair<std::string_view, std::uint64_t> numbers[] = {
      {"entries", stats.entries},
      {"tokens", static_cast<std::uint64_t>(stats.tokens)},
      {"leases", stats.leases},
      {"hits", stats.hits},
      {"misses", stats.misses},
      {"sets", stats.sets},
      {"refused_blocked", stats.refused_blocked},
      {"refused_budget", stats.refused_budget},
      {"dropped_writes", c.dropped_writes.load()},
      {"device_bytes", stats.device.bytes},
      {"device_capacity", stats.device.capacity},
      {"host_bytes", stats.host.bytes},
      {"disk_bytes", stats.disk.bytes},
      {"bytes_down", stats.moves.bytes_down},
      {"bytes_up", stats.moves.bytes_up},
      {"ahead_bytes", stats.moves.ahead_bytes},
      {"ahead_useful_bytes", stats.moves.ahead_useful_bytes},
      {"corrupt", stats.moves.corrupt},
      {"index_bytes", stats.index_bytes},
      {"clients", call.state.connected.load()}};
  call.reply.Map(std::size(numbers));
  for (const auto& [name, number] : numbers) {
    call.reply.Bulk(name);
    call.reply.Integer(static_cast<std::int64_t>(number));
  }
}

// All SPILL commands, or the one that is named, as the command table has them.
void SpillHelp(Call& call) {
  constexpr std::string_view kPrefix = "spill.";
  std::string only;
  if (call.args.size() > 1) {
    for (const char c : call.arg(1)) {
      only += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    if (!only.starts_with(kPrefix)) only.insert(0, kPrefix);
  }
  std::vector<const Command*> found;
  for (const Command& command : Commands()) {
    if (only.empty() ? command.name.starts_with(kPrefix) : command.name == only) {
      found.push_back(&command);
    }
  }
  if (found.empty()) {
    return call.Error(fmt::format("ERR '{}' is no SPILL command; SPILL.HELP lists them",
                                  Printable(call.arg(1), 64)));
  }
  call.reply.Array(2 * found.size());
  for (const Command* command : found) {
    std::string name(command->name);
    for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    call.reply.Simple(name);
    call.reply.Simple(fmt::format("    {}", command->summary));
  }
}

void SpillMode(Call& call) {
  Cache& cache = call.state.cache();
  const std::optional<double> pressure = cache.pressure();
  call.reply.Map(4);
  call.reply.Bulk("mode");
  call.reply.Bulk(Name(cache.mode()));
  call.reply.Bulk("level");
  call.reply.Bulk(Name(cache.level()));
  call.reply.Bulk("pressure");
  pressure ? call.reply.Double(*pressure) : call.reply.Null();
  call.reply.Bulk("blocked");
  call.reply.Boolean(cache.is_blocked());
}

// Frees what can be freed at once: the thread that runs commands must not wait.
void SpillReclaim(Call& call) {
  const Result<Bytes> bytes = ParseBytes(call.arg(1));
  if (!bytes) return call.Error(fmt::format("ERR {}", bytes.error().message));
  const Reclaimed reclaimed = call.state.cache().Reclaim(*bytes, Duration::zero());
  call.reply.Map(2);
  call.reply.Bulk("freed");
  call.reply.Integer(static_cast<std::int64_t>(reclaimed.freed));
  call.reply.Bulk("why_not_more");
  call.reply.Bulk(reclaimed.why_not_more);
}

// Runs one pass of the policy with a given pressure, for trials. The next sample of the source
// counts again.
void SpillPressure(Call& call) {
  double pressure = 0;
  const std::string_view text = call.arg(1);
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), pressure);
  if (error != std::errc() || stop != text.data() + text.size() || !(pressure >= 0) ||
      pressure > 1) {
    return call.Error(fmt::format("ERR '{}' is no pressure; it must be from 0 to 1", text));
  }
  const Applied applied = call.state.cache().Apply(pressure);
  call.reply.Map(2);
  call.reply.Bulk("level");
  call.reply.Bulk(Name(applied.level));
  call.reply.Bulk("left");
  call.reply.Integer(static_cast<std::int64_t>(applied.left.size()));
}

// --- a value in pieces: it may be larger than one argument ---

namespace {

void NoRoomFor(Call& call, const Direct::Wrote& wrote) {
  const bool waits = call.session.may_wait();
  if (wrote.soon) call.state.ReclaimFor(call.session);
  if (wrote.soon && waits) return call.Suspend(Wait::kRoom);
  if (!wrote.status) {
    const Error& error = wrote.status.error();
    if (error.code == Code::kInvalidArgument || error.code == Code::kTooLarge) {
      return call.Error(fmt::format("ERR {}", error.message));
    }
  }
  if (waits && call.state.ReclaimStalledRoom()) return call.Suspend(Wait::kRoom);
  Refuse(call);
}

void NoUpload(Call& call) {
  call.session.upload_given_up
      ? call.Error(fmt::format(
            "ERR the room of SPILL.BEGIN was given to another write, since fewer than {} KiB came "
            "within {} s; begin again",
            RoomPace::kBytes / kKiB, RoomPace::kWithin / std::chrono::seconds(1)))
      : call.Error(fmt::format("ERR {} without SPILL.BEGIN", call.command.name == "spill.append"
                                                                 ? "SPILL.APPEND"
                                                                 : "SPILL.COMMIT"));
}

}  // namespace

void SpillBegin(Call& call) {
  SpillOptions options;
  std::int64_t bytes = 0;
  if (!IntegerArg(call, 2, &bytes)) return;
  if (bytes < 0) return call.Error("ERR a value can't have less than 0 bytes");
  if (!ReadSpillOptions(call, 3, &options)) return;
  std::string buffer;
  const std::string_view key = KeyArg(call, 1, &buffer);
  if (key.empty()) return;
  Session& session = call.session;
  session.upload.reset();
  session.upload_given_up = false;
  Session::Upload upload;
  upload.key = key;
  upload.ttl = options.ttl;
  upload.hint = options.set.hint;
  upload.eta = options.set.eta;
  upload.recompute = options.set.recompute;
  upload.step = options.set.step;
  const Direct::Wrote wrote = call.state.direct().Reserve(
      key, static_cast<Bytes>(bytes), options.set, &upload.room, Direct::Old::kStays);
  if (!upload.room) return NoRoomFor(call, wrote);
  session.upload_pace.BeginIfEnded(call.state.direct().Now());
  session.upload = std::move(upload);
  call.reply.Ok();
}

void SpillAppend(Call& call) {
  Session& session = call.session;
  if (!session.upload) return NoUpload(call);
  if (MutantOn(Mutant::kTrickleHoldsRoom)) session.upload_pace.Begin(call.state.direct().Now());
  Session::Upload& upload = *session.upload;
  if (session.apart_at == 1) {  // The bytes were received straight into the reservation.
    upload.filled += session.apart_bytes;
    return call.reply.Integer(static_cast<std::int64_t>(upload.filled));
  }
  const std::string_view piece = call.arg(1);
  if (piece.size() > upload.room.size() - upload.filled) {
    return call.Error(fmt::format("ERR {} bytes more do not fit: {} of {} are there", piece.size(),
                                  upload.filled, upload.room.size()));
  }
  std::memcpy(upload.room.data() + upload.filled, piece.data(), piece.size());
  upload.filled += piece.size();
  session.upload_pace.Came(piece.size(), call.state.direct().Now());
  call.reply.Integer(static_cast<std::int64_t>(upload.filled));
}

void SpillCommit(Call& call) {
  Session& session = call.session;
  if (!session.upload) return NoUpload(call);
  Session::Upload& upload = *session.upload;
  if (upload.filled != upload.room.size()) {
    return call.Error(
        fmt::format("ERR only {} of {} bytes are there", upload.filled, upload.room.size()));
  }
  const Direct::Wrote wrote = call.state.direct().Commit(&upload.room, EndOf(call, upload.ttl));
  if (wrote.status) {
    SetOptions said;
    said.hint = upload.hint;
    said.eta = upload.eta;
    said.step = upload.step;
    said.recompute = upload.recompute;
    call.state.direct().Advise(upload.key, said);
  }
  session.upload.reset();
  session.upload_pace.End();
  AnswerStored(call, wrote.status ? Stored::kYes : Stored::kRefused);
}

}  // namespace spillway::server
