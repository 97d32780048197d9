// SPDX-License-Identifier: Apache-2.0
#include "serversim/requests.h"

#include <algorithm>
#include <iterator>
#include <sstream>

#include <fmt/format.h>

#include "serversim/model.h"
#include "serversim/value.h"

namespace spillway::serversim {

namespace {

// K a key, V a value, s seconds, m milliseconds, U and W a Unix time in seconds and
// milliseconds, N any number, D a database, E no bytes.
struct Form {
  std::string_view text;
  std::uint32_t weight;
  bool in_multi = true;
  bool when_roomy = true;  // Not one that makes room scarce.
};

constexpr Form kForms[] = {
    {"GET K", 150},
    {"SET K V", 200},
    {"SET K V NX", 12},
    {"SET K V XX", 12},
    {"SET K V GET", 12},
    {"SET K V NX GET", 6},
    {"SET K V XX GET", 6},
    {"SET K V EX s", 12},
    {"SET K V PX m", 16},
    {"SET K V PXAT W", 8},
    {"SET K V EXAT U", 6},
    {"SET K V NX PX m", 12},
    {"SET K V KEEPTTL", 10},
    {"SET K V XX KEEPTTL GET", 4},
    {"SET K V EX s EX s", 2},
    {"SET K V NX XX", 2},
    {"SET K V EX 0", 2},
    {"SET K V PX x", 2},
    {"SETNX K V", 20},
    {"SETEX K s V", 10},
    {"PSETEX K m V", 10},
    {"GETSET K V", 14},
    {"GETDEL K", 12},
    {"GETEX K", 6},
    {"GETEX K EX s", 6},
    {"GETEX K PX m", 8},
    {"GETEX K PXAT W", 8},
    {"GETEX K EXAT U", 4},
    {"GETEX K PERSIST", 6},
    {"MGET K", 6},
    {"MGET K K K K", 16},
    {"MSET K V K V", 10},
    {"MSET K V K V K V", 8},
    {"MSETNX K V K V", 10},
    {"STRLEN K", 8},
    {"GETRANGE K N N", 8},
    {"SUBSTR K N N", 2},
    {"GETBIT K N", 4},
    {"DEL K", 20},
    {"DEL K K K", 6},
    {"UNLINK K K", 4},
    {"EXISTS K", 10},
    {"EXISTS K K K", 6},
    {"TOUCH K K", 4},
    {"TYPE K", 4},
    {"OBJECT ENCODING K", 4},
    {"EXPIRE K s", 14},
    {"EXPIRE K s NX", 4},
    {"EXPIRE K s XX", 4},
    {"EXPIREAT K U GT", 4},
    {"EXPIREAT K U LT", 4},
    {"PEXPIRE K m", 16},
    {"PEXPIRE K 0", 2},
    {"PEXPIREAT K W", 10},
    {"PEXPIREAT K W GT", 3},
    {"PEXPIREAT K W LT", 3},
    {"EXPIRE K s NX GT", 1},
    {"PERSIST K", 12},
    {"TTL K", 8},
    {"PTTL K", 14},
    {"EXPIRETIME K", 4},
    {"PEXPIRETIME K", 8},
    {"KEYS *", 3},
    {"SCAN 0 COUNT 100000", 3},
    {"RANDOMKEY", 8},
    {"DBSIZE", 12},
    {"INFO keyspace", 6},
    {"FLUSHDB", 3},
    {"FLUSHALL", 1},
    {"SELECT D", 20},
    {"SELECT 16", 1},
    {"PING", 6},
    {"PING N", 2},
    {"ECHO V", 3},
    {"HELLO 3", 3, false},
    {"HELLO 2", 3, false},
    {"HELLO", 1, false},
    {"CLIENT SETNAME N", 1},
    {"CLIENT GETNAME", 2},
    {"RESET", 1, false},
    {"NOSUCH K", 1},
    {"GET", 1},
    {"EXEC", 1, false},
    {"DISCARD", 1, false},
    {"SPILL.SET K V", 12},
    {"SPILL.SET K V TOKENS N AGENT K", 6},
    {"SPILL.SET K V TTL m META K", 6},
    {"SPILL.GET K", 12},
    {"SPILL.TOUCH K", 4},
    {"SPILL.MATCH K K", 2},
    {"SPILL.PREFETCH K K K", 8},
    {"SPILL.RECLAIM N", 3, true, false},
    {"SPILL.PRESSURE P", 3, true, false},
    {"SPILL.MODE", 1},
    {"SPILL.STATS", 1},
    {"SPILL.EXPLAIN K", 1},
    {"PIECES", 12, false},
    {"SPILL.APPEND E", 20, false},
};

// Their replies are texts, save for errors.
constexpr std::string_view kInWords[] = {"info", "hello", "spill.stats", "spill.explain"};

}  // namespace

std::uint64_t Requests::IdOf(std::string_view command) {
  std::uint64_t id = 0;
  for (const char c : Lower(command)) id = sim::Mix(id ^ static_cast<unsigned char>(c));
  return id;
}

bool Requests::AnswersInWords(std::string_view command) {
  return std::ranges::find(kInWords, Lower(command)) != std::end(kInWords);
}

std::vector<std::uint32_t> DrawCommands(sim::Rng& rng, const std::set<std::string>& without,
                                        bool roomy) {
  std::vector<std::uint32_t> weights;
  for (const Form& form : kForms) {
    const std::uint64_t luck = rng.Below(10);
    std::uint32_t weight = luck < 6 ? form.weight * 2 : luck < 8 ? 0 : form.weight * 10;
    const std::string name = Lower(form.text.substr(0, form.text.find(' ')));
    if (without.contains(name) || (roomy && !form.when_roomy)) weight = 0;
    weights.push_back(weight);
  }
  weights[0] = std::max(weights[0], 100U);
  weights[1] = std::max(weights[1], 200U);
  return weights;
}

std::vector<std::uint32_t> WeightsOf(std::string_view form, std::uint32_t weight) {
  std::vector<std::uint32_t> weights;
  for (const Form& each : kForms) weights.push_back(each.text == form ? weight : 0);
  return weights;
}

std::vector<Words> Requests::Next(std::int64_t unix_ms) {
  if (rng_.Percent(plan_.multi_percent)) {
    if (rng_.Percent(plan_.bulk_percent)) return Bulk();
    std::vector<Words> all{{"MULTI"}};
    for (std::uint64_t i = rng_.LogBetween(0, plan_.multi_max); i > 0; --i) {
      all.push_back(One(unix_ms, true));
    }
    all.push_back({rng_.OneIn(12) ? "DISCARD" : "EXEC"});
    return all;
  }
  Words words = One(unix_ms, false);
  if (words[0] == "PIECES") return Pieces();
  return {std::move(words)};
}

Words Requests::One(std::int64_t unix_ms, bool in_multi) {
  for (;;) {
    const std::size_t at = rng_.ByWeight(plan_.commands, plan_.commands_sum);
    if (in_multi && !kForms[at].in_multi) continue;
    return FromForm(kForms[at].text, unix_ms);
  }
}

Words Requests::FromForm(std::string_view form, std::int64_t unix_ms) {
  Words words;
  std::istringstream stream{std::string(form)};
  const auto ms = [&] { return static_cast<std::int64_t>(rng_.LogBetween(1, plan_.end_ms_max)); };
  for (std::string word; stream >> word;) {
    if (word == "K") {
      word = AnyKey();
    } else if (word == "V") {
      word = NewValue();
    } else if (word == "s") {
      word = fmt::to_string(std::max<std::int64_t>(1, ms() / 1000));
    } else if (word == "m") {
      word = fmt::format("{}{}", ms(), form.starts_with("SPILL") ? "ms" : "");
    } else if (word == "U") {
      word = fmt::to_string(unix_ms / 1000 + static_cast<std::int64_t>(rng_.Below(8)) - 1);
    } else if (word == "W") {
      word = fmt::to_string(unix_ms + ms() - static_cast<std::int64_t>(rng_.Below(20)));
    } else if (word == "N") {
      word =
          fmt::to_string(static_cast<std::int64_t>(rng_.LogBetween(0, 2 * plan_.value_max)) -
                         (rng_.OneIn(3) && form.find("RANGE") != std::string_view::npos ? 40 : 0));
    } else if (word == "E") {
      word.clear();
    } else if (word == "D") {
      word = fmt::to_string(rng_.Below(static_cast<std::uint64_t>(plan_.databases)));
    } else if (word == "P") {
      word = rng_.OneOf<const char*>({"0", "0.5", "0.8", "0.9", "0.95", "0.99"});
    }
    words.push_back(std::move(word));
  }
  // Negative bits are no bits.
  if (words[0] == "GETBIT" && words[2][0] == '-') words[2].erase(0, 1);
  return words;
}

std::string Requests::NewValue() {
  const std::uint64_t number = ++values_;
  if (rng_.OneIn(12)) return TextOf(NumberValue(number));
  const Bytes size = rng_.Percent(plan_.large_percent)
                         ? rng_.Between(plan_.value_max / 2, plan_.value_max)
                         : rng_.LogBetween(0, plan_.value_max);
  return TextOf({.number = number, .size = size});
}

// Small values, together more than is held for a client that does not read: first to
// where he should read, then those that are so small that they are still copied there.
std::vector<Words> Requests::Bulk() {
  constexpr Bytes kMark = kMiB;
  const std::string key = AnyKey();
  const Value value{.number = ++values_, .size = std::min<Bytes>(plan_.value_max, 15 * kKiB)};
  const Value small{.number = ++values_, .size = 500};
  std::vector<Words> all{{"MULTI"}, {"SET", key, TextOf(value)}};
  for (Bytes i = kMark / value.size + 2; i > 0; --i) all.push_back({"GET", key});
  all.push_back({"SET", key, TextOf(small)});
  for (std::uint64_t i = rng_.Between(200, 900); i > 0; --i) all.push_back({"GET", key});
  all.push_back({"EXEC"});
  return all;
}

// A value that comes in pieces; sometimes it stays unfinished.
std::vector<Words> Requests::Pieces() {
  const Value value{.number = ++values_,
                    .size = std::max<Bytes>(32, rng_.LogBetween(0, plan_.value_max))};
  const std::string text = TextOf(value);
  std::vector<Words> all{{"SPILL.BEGIN", AnyKey(), fmt::to_string(text.size())}};
  if (rng_.OneIn(3)) {
    all.back().insert(all.back().end(), {"TTL", fmt::format("{}ms", rng_.LogBetween(1, 5000))});
  }
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = std::max<std::size_t>(32, rng_.LogBetween(1, text.size()));
    all.push_back({"SPILL.APPEND", text.substr(at, bytes)});
    at += bytes;
  }
  all.push_back({"SPILL.COMMIT"});
  while (rng_.Percent(plan_.unfinished_percent) && all.size() > 1) all.pop_back();
  return all;
}

}  // namespace spillway::serversim
