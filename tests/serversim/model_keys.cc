// SPDX-License-Identifier: Apache-2.0
// What each command may do with one key, and answer.
#include <algorithm>
#include <charconv>
#include <map>

#include <fmt/format.h>

#include "serversim/model.h"

namespace spillway::serversim {

namespace {

using Outcomes = std::vector<Outcome>;

std::optional<std::int64_t> Number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  if (fmt::to_string(number) != text) return {};
  return number;
}

void Answer(Outcomes* outcomes, std::string_view reply) {
  Outcome outcome;
  outcome.reply = reply;
  outcomes->push_back(std::move(outcome));
}

void AnswerLike(Outcomes* outcomes, std::function<bool(std::string_view)> fits,
                std::string_view like, bool refused = false) {
  Outcome outcome;
  outcome.fits = std::move(fits);
  outcome.reply = like;
  outcome.refused = refused;
  outcomes->push_back(std::move(outcome));
}

void Becomes(Outcomes* outcomes, std::string_view reply, State next) {
  Outcome outcome;
  outcome.reply = reply;
  outcome.next = std::move(next);
  outcome.changes = true;
  outcomes->push_back(std::move(outcome));
}

// The words of a value say which it is: they are not kept.
State Written(const OnKey& on, std::size_t word) {
  State state;
  state.there = true;
  const std::string& text = on.words[word];
  // "<number>:..." or digits; see TextOf.
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  static_cast<void>(error);
  state.value = {.number = number,
                 .size = text.size(),
                 .is_number = !text.empty() && end == text.data() + text.size()};
  return state;
}

void Refusals(const OnKey& on, std::size_t word, bool plain, Outcomes* outcomes) {
  const Bytes size = on.words[word].size();
  if (size > on.rules.value_max || on.is_faulty) {
    AnswerLike(
        outcomes, [](std::string_view reply) { return reply.starts_with("-ERR "); }, "", true);
  }
  if (on.rules.roomy) return;
  if (on.rules.drop && plain) {
    return Becomes(outcomes, "+OK\r\n", {});
  }
  AnswerLike(outcomes, [](std::string_view reply) { return reply == kOom; }, kOom, true);
}

// What is in a lower tier may be out of reach for a while.
void MayFail(const OnKey& on, Outcomes* outcomes) {
  if (!on.reads_may_fail) return;
  AnswerLike(
      outcomes,
      [](std::string_view reply) { return reply.starts_with("-ERR the value could not be read"); },
      "", true);
}

std::string ValueOrNull(const OnKey& on, const State& state, bool alive) {
  return alive ? Bulk(TextOf(state.value)) : Null(on.protocol);
}

// --- ends ---

struct End {
  std::int64_t from = kNever;
  std::int64_t to = kNever;
};

std::int64_t Plus(std::int64_t a, std::int64_t b) { return a > kNever - b ? kNever : a + b; }

// Of an option EX, PX, EXAT or PXAT. Empty, and an error: it makes no sense.
std::optional<End> EndOf(const OnKey& on, std::string_view option, const std::string& text,
                         std::string* error) {
  const std::optional<std::int64_t> number = Number(text);
  if (!number) {
    *error = kNotInteger;
    return {};
  }
  const bool seconds = option == "ex" || option == "exat";
  if (*number <= 0 || (seconds && *number > kNever / 1000)) {
    *error = fmt::format("-ERR invalid expire time in '{}' command\r\n", Lower(on.words[0]));
    return {};
  }
  const std::int64_t ms = seconds ? *number * 1000 : *number;
  if (option.ends_with("at")) return End{ms, ms};
  return End{Plus(on.from_ms, ms), Plus(on.to_ms, ms)};
}

struct SetWords {
  bool only_new = false;
  bool only_there = false;
  bool get = false;
  bool keep = false;
  bool persist = false;
  std::string option;
  std::string time;
  bool is_bad = false;
};

SetWords ReadWords(const OnKey& on, std::size_t from, bool of_set) {
  SetWords read;
  for (std::size_t i = from; i < on.words.size(); ++i) {
    const std::string word = Lower(on.words[i]);
    const bool timed = word == "ex" || word == "px" || word == "exat" || word == "pxat";
    if (timed && i + 1 < on.words.size() && !read.keep && !read.persist &&
        (read.option.empty() || read.option == word)) {
      read.option = word;
      read.time = on.words[++i];
    } else if (of_set && word == "nx" && !read.only_there) {
      read.only_new = true;
    } else if (of_set && word == "xx" && !read.only_new) {
      read.only_there = true;
    } else if (of_set && word == "get") {
      read.get = true;
    } else if (of_set && word == "keepttl" && read.option.empty()) {
      read.keep = true;
    } else if (!of_set && word == "persist" && read.option.empty()) {
      read.persist = true;
    } else {
      read.is_bad = true;
    }
  }
  return read;
}

// A write whose end has come already leaves nothing behind.
void Set(const OnKey& on, const State& state, bool alive, Outcomes* outcomes) {
  const SetWords read = ReadWords(on, 3, true);
  if (read.is_bad) return Answer(outcomes, kSyntax);
  End end;
  if (!read.option.empty()) {
    std::string error;
    const std::optional<End> given = EndOf(on, read.option, read.time, &error);
    if (!given) return Answer(outcomes, error);
    end = *given;
  }
  if (read.get) MayFail(on, outcomes);
  if ((read.only_new && alive) || (read.only_there && !alive)) {
    return Answer(outcomes, read.get ? ValueOrNull(on, state, alive) : Null(on.protocol));
  }
  State next = Written(on, 2);
  if (read.keep && alive) end = {state.end_from, state.end_to};
  next.end_from = end.from;
  next.end_to = end.to;
  Becomes(outcomes, read.get ? ValueOrNull(on, state, alive) : "+OK\r\n", next);
  Refusals(on, 2, !read.only_new && !read.only_there && !read.get, outcomes);
}

void SetNx(const OnKey& on, const State&, bool alive, Outcomes* outcomes) {
  if (alive) return Answer(outcomes, Integer(0));
  Becomes(outcomes, Integer(1), Written(on, 2));
  Refusals(on, 2, false, outcomes);
}

void SetFor(const OnKey& on, std::string_view option, Outcomes* outcomes) {
  std::string error;
  const std::optional<End> end = EndOf(on, option, on.words[2], &error);
  if (!end) return Answer(outcomes, error);
  State next = Written(on, 3);
  next.end_from = end->from;
  next.end_to = end->to;
  Becomes(outcomes, "+OK\r\n", next);
  Refusals(on, 3, true, outcomes);
}
void SetEx(const OnKey& on, const State&, bool, Outcomes* outcomes) { SetFor(on, "ex", outcomes); }
void PSetEx(const OnKey& on, const State&, bool, Outcomes* outcomes) { SetFor(on, "px", outcomes); }

void GetSet(const OnKey& on, const State& state, bool alive, Outcomes* outcomes) {
  MayFail(on, outcomes);
  Becomes(outcomes, ValueOrNull(on, state, alive), Written(on, 2));
  Refusals(on, 2, false, outcomes);
}

void GetDel(const OnKey& on, const State& state, bool alive, Outcomes* outcomes) {
  MayFail(on, outcomes);
  Becomes(outcomes, ValueOrNull(on, state, alive), {});
}

void Get(const OnKey& on, const State& state, bool alive, Outcomes* outcomes) {
  MayFail(on, outcomes);
  Answer(outcomes, ValueOrNull(on, state, alive));
}

// The state with another end; gone, if that has come.
void Ends(const OnKey& on, const State& state, End end, std::string reply, Outcomes* outcomes) {
  if (end.from <= on.to_ms) Becomes(outcomes, reply, {});
  if (end.to <= on.from_ms) return;
  State next = state;
  next.end_from = end.from;
  next.end_to = end.to;
  Becomes(outcomes, std::move(reply), next);
}

void GetEx(const OnKey& on, const State& state, bool alive, Outcomes* outcomes) {
  const SetWords read = ReadWords(on, 2, false);
  if (read.is_bad) return Answer(outcomes, kSyntax);
  MayFail(on, outcomes);
  if (!alive) return Answer(outcomes, Null(on.protocol));
  const std::string value = ValueOrNull(on, state, alive);
  if (read.persist) return Ends(on, state, {}, value, outcomes);
  if (read.option.empty()) return Answer(outcomes, value);
  std::string error;
  const std::optional<End> end = EndOf(on, read.option, read.time, &error);
  end ? Ends(on, state, *end, value, outcomes) : Answer(outcomes, error);
}

void Expire(const OnKey& on, const State& state, bool alive, Outcomes* outcomes) {
  const std::string name = Lower(on.words[0]);
  bool none = false;
  bool some = false;
  bool greater = false;
  bool less = false;
  for (std::size_t i = 3; i < on.words.size(); ++i) {
    const std::string word = Lower(on.words[i]);
    none = none || word == "nx";
    some = some || word == "xx";
    greater = greater || word == "gt";
    less = less || word == "lt";
  }
  if (none && (some || greater || less)) {
    return Answer(outcomes,
                  "-ERR NX and XX, GT or LT options at the same time are not compatible\r\n");
  }
  if (greater && less) {
    return Answer(outcomes, "-ERR GT and LT options at the same time are not compatible\r\n");
  }
  const std::optional<std::int64_t> number = Number(on.words[2]);
  if (!number) return Answer(outcomes, kNotInteger);
  const std::int64_t ms = name.starts_with("p") ? *number : *number * 1000;
  const bool at = name.ends_with("at");
  const End end{at ? ms : on.from_ms + ms, at ? ms : on.to_ms + ms};
  if (!alive) return Answer(outcomes, Integer(0));
  const bool has = state.end_from != kNever;
  bool may = true;
  bool may_not = false;
  if (none && has) may = false;
  if (some && !has) may = false;
  if (greater) {
    may = may && has && end.to > state.end_from;
    may_not = !has || end.from <= state.end_to;
  }
  if (less && has) {
    may = may && end.from < state.end_to;
    may_not = end.to >= state.end_from;
  }
  if (may) Ends(on, state, end, Integer(1), outcomes);
  if (!may || may_not) Answer(outcomes, Integer(0));
}

void Persist(const OnKey&, const State& state, bool alive, Outcomes* outcomes) {
  if (!alive || state.end_from == kNever) return Answer(outcomes, Integer(0));
  State next = state;
  next.end_from = next.end_to = kNever;
  Becomes(outcomes, Integer(1), next);
}

// TTL, PTTL, EXPIRETIME, PEXPIRETIME.
void Time(const OnKey& on, const State& state, bool alive, Outcomes* outcomes) {
  if (!alive) return Answer(outcomes, Integer(-2));
  if (state.end_from == kNever) return Answer(outcomes, Integer(-1));
  const std::string name = Lower(on.words[0]);
  const bool left = name.ends_with("ttl");
  const bool ms = name.starts_with("p");
  const auto told = [&](std::int64_t end, std::int64_t now) {
    const std::int64_t number = left ? std::max<std::int64_t>(end - now, 0) : end;
    return ms ? number : (number + 500) / 1000;
  };
  const std::int64_t least = told(state.end_from, on.to_ms);
  const std::int64_t most = told(state.end_to, on.from_ms);
  AnswerLike(
      outcomes,
      [least, most](std::string_view reply) {
        const std::optional<std::int64_t> number = NumberOf(reply);
        return number && *number >= least && *number <= most;
      },
      fmt::format("{}..{}", least, most));
}

void Type(const OnKey&, const State&, bool alive, Outcomes* outcomes) {
  Answer(outcomes, alive ? "+string\r\n" : "+none\r\n");
}

void StrLen(const OnKey&, const State& state, bool alive, Outcomes* outcomes) {
  Answer(outcomes, Integer(alive ? static_cast<std::int64_t>(state.value.size) : 0));
}

void GetRange(const OnKey& on, const State& state, bool alive, Outcomes* outcomes) {
  const std::optional<std::int64_t> first = Number(on.words[2]);
  const std::optional<std::int64_t> last = Number(on.words[3]);
  if (!first || !last) return Answer(outcomes, kNotInteger);
  MayFail(on, outcomes);
  const auto size = static_cast<std::int64_t>(alive ? state.value.size : 0);
  std::int64_t start = *first;
  std::int64_t end = *last;
  if (start < 0 && end < 0 && start > end) return Answer(outcomes, Bulk(""));
  if (start < 0) start = std::max<std::int64_t>(start + size, 0);
  if (end < 0) end = std::max<std::int64_t>(end + size, 0);
  end = std::min(end, size - 1);
  if (start > end || size == 0) return Answer(outcomes, Bulk(""));
  Answer(outcomes, Bulk(TextOf(state.value)
                            .substr(static_cast<std::size_t>(start),
                                    static_cast<std::size_t>(end - start + 1))));
}

void GetBit(const OnKey& on, const State& state, bool alive, Outcomes* outcomes) {
  const std::optional<std::int64_t> bit = Number(on.words[2]);
  if (!bit || *bit < 0) {
    return Answer(outcomes, "-ERR bit offset is not an integer or out of range\r\n");
  }
  MayFail(on, outcomes);
  const auto byte = static_cast<Bytes>(*bit / 8);
  if (!alive || byte >= state.value.size) return Answer(outcomes, Integer(0));
  const auto bits = static_cast<unsigned char>(TextOf(state.value)[byte]);
  Answer(outcomes, Integer((bits >> (7 - *bit % 8)) & 1));
}

void ObjectEncoding(const OnKey& on, const State& state, bool alive, Outcomes* outcomes) {
  MayFail(on, outcomes);
  if (!alive) return Answer(outcomes, Null(on.protocol));
  if (state.value.size > 44) return Answer(outcomes, Bulk("raw"));
  const std::string text = TextOf(state.value);
  Answer(outcomes, Bulk(text.size() <= 20 && Number(text) ? "int" : "embstr"));
}

void IsThere(const OnKey&, const State&, bool alive, Outcomes* outcomes) {
  Answer(outcomes, Integer(alive ? 1 : 0));
}

void Del(const OnKey&, const State&, bool alive, Outcomes* outcomes) {
  Becomes(outcomes, Integer(alive ? 1 : 0), {});
}

// --- SPILL.* ---

void SpillSet(const OnKey& on, const State&, bool, Outcomes* outcomes) {
  State next = Written(on, 2);
  for (std::size_t i = 3; i + 1 < on.words.size(); i += 2) {
    const std::string word = Lower(on.words[i]);
    const std::string& value = on.words[i + 1];
    if (word == "tokens") next.tokens = Number(value).value_or(0);
    if (word == "agent") next.agent = value;
    if (word == "meta") next.meta = value;
    if (word != "ttl") continue;
    const std::int64_t ms = Number(value.substr(0, value.size() - 2)).value_or(0);
    next.end_from = on.from_ms + ms;
    next.end_to = on.to_ms + ms + 1;  // It counts parts of a millisecond, too.
  }
  Becomes(outcomes, "+OK\r\n", next);
  Refusals(on, 2, false, outcomes);
}

void SpillGet(const OnKey& on, const State& state, bool alive, Outcomes* outcomes) {
  MayFail(on, outcomes);
  if (!alive) return Answer(outcomes, Null(on.protocol));
  const State copy = state;
  AnswerLike(
      outcomes,
      [copy](std::string_view reply) {
        const auto elements = Elements(reply);
        if (!elements || elements->size() != 10) return false;
        const auto& e = *elements;
        return e[0] == Bulk("tokens") && e[1] == Integer(copy.tokens) &&
               e[2] == Bulk("generation") && NumberOf(e[3]) && e[4] == Bulk("agent") &&
               e[5] == Bulk(copy.agent) && e[6] == Bulk("meta") && e[7] == Bulk(copy.meta) &&
               e[8] == Bulk("value") && e[9] == Bulk(TextOf(copy.value));
      },
      fmt::format("value {} of {} bytes, {} tokens", copy.value.number, copy.value.size,
                  copy.tokens));
}

using OutcomesOfOne = void (*)(const OnKey&, const State&, bool, Outcomes*);

const std::map<std::string, OutcomesOfOne, std::less<>>& Table() {
  static const std::map<std::string, OutcomesOfOne, std::less<>> table = {
      {"set", Set},
      {"setnx", SetNx},
      {"setex", SetEx},
      {"psetex", PSetEx},
      {"getset", GetSet},
      {"getdel", GetDel},
      {"get", Get},
      {"getex", GetEx},
      {"expire", Expire},
      {"pexpire", Expire},
      {"expireat", Expire},
      {"pexpireat", Expire},
      {"persist", Persist},
      {"ttl", Time},
      {"pttl", Time},
      {"expiretime", Time},
      {"pexpiretime", Time},
      {"type", Type},
      {"strlen", StrLen},
      {"getrange", GetRange},
      {"substr", GetRange},
      {"getbit", GetBit},
      {"object", ObjectEncoding},
      {"exists", IsThere},
      {"touch", IsThere},
      {"spill.touch", IsThere},
      {"del", Del},
      {"unlink", Del},
      {"spill.set", SpillSet},
      {"spill.get", SpillGet}};
  return table;
}

}  // namespace

bool OutcomesOf(const OnKey& on, const State& state, bool alive, std::vector<Outcome>* outcomes) {
  const auto found = Table().find(Lower(on.words[0]));
  if (found == Table().end()) return false;
  found->second(on, state, alive, outcomes);
  return true;
}

bool Model::IsWrite(const Words& words) {
  const std::string name = Lower(words[0]);
  for (const std::string_view one :
       {"set", "setnx", "setex", "psetex", "getset", "getex", "getdel", "mset", "msetnx",
        "spill.set", "expire", "pexpire", "expireat", "pexpireat", "persist"}) {
    if (name == one) return true;
  }
  return false;
}

}  // namespace spillway::serversim
