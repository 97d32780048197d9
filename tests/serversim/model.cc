// SPDX-License-Identifier: Apache-2.0
#include "serversim/model.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <utility>

#include <fmt/format.h>

namespace spillway::serversim {

bool State::SameAs(const State& other) const {
  if (there != other.there) return false;
  return !there || (value == other.value && end_from == other.end_from && end_to == other.end_to &&
                    tokens == other.tokens && agent == other.agent && meta == other.meta);
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

std::string Shown(std::string_view bytes) {
  std::string shown;
  for (const char c : bytes.substr(0, 80)) {
    if (c >= ' ' && c <= '~') {
      shown += c;
    } else {
      shown += c == '\r' ? "\\r" : c == '\n' ? "\\n" : "?";
    }
  }
  if (bytes.size() > 80) shown += fmt::format("... ({} bytes)", bytes.size());
  return shown;
}

std::string Shown(const Words& words) {
  std::string shown;
  for (const std::string& word : words) {
    shown += shown.empty() ? "" : " ";
    shown += word.size() > 40
                 ? fmt::format("{}...({})", Shown(std::string_view(word).substr(0, 8)), word.size())
                 : Shown(std::string_view(word));
  }
  return shown;
}

std::string Differs(std::string_view reply, std::string_view expected) {
  if (reply == expected) return {};
  return fmt::format("'{}' is not '{}'", Shown(reply), Shown(expected));
}

Key& Model::KeyOf(const KeyName& name) {
  Key& key = keys_[name];
  if (key.now.empty()) {
    key.now.emplace_back();
    key.now.back().is_base = true;
  }
  return key;
}

bool Model::MayBeGone(const State& state, std::int64_t by) {
  return !state.there || state.end_from <= by;
}

bool Model::MayBeAlive(const State& state, std::int64_t from) {
  return state.there && state.end_to > from;
}

bool Model::MayBeThere(const KeyName& name) {
  const Key& key = KeyOf(name);
  const std::int64_t now = world_.unix_ms();
  return std::ranges::any_of(key.now, [&](const State& s) { return MayBeAlive(s, now); });
}

void Model::Acknowledge(std::uint64_t command) {
  if (command >= acknowledged_.size()) acknowledged_.resize(command + 1024);
  acknowledged_[command] = true;
}

// --- commands ---

std::string Model::Check(Command& command) {
  Tick();
  const std::string name = Lower(command.words[0]);
  Talker& talker = command.talker;
  std::string wrong;
  // Who has waited for as long as a command may is told why, and nothing has changed. A large
  // value may have waited for room before, and commands of an EXEC in vain: then half of what that
  // left is this one's.
  const std::int64_t wait_ms = talker.exec_at > 0 ? 0 : 3000;
  std::string_view why = command.reply;
  constexpr std::string_view kAborted = "-EXECABORT Transaction discarded because of: ";
  if (name == "exec" && why.starts_with(kAborted)) why.remove_prefix(kAborted.size() - 1);
  why.remove_prefix(std::min<std::size_t>(why.size(), 1));
  const bool has_waited = talker.exec_at > 0 || command.waited;
  const bool in_vain = (has_waited && world_.unix_ms() - talker.start_ms >= wait_ms &&
                        (why.starts_with("ERR another client's write of this key") ||
                         why.starts_with("LOADING "))) ||
                       (world_.refuses_writes() && why.starts_with("MISCONF "));
  if (in_vain && name == "exec") talker.EndMulti();
  if (in_vain) {
    wrong.clear();
  } else if (talker.in_multi && name != "exec" && name != "discard" && name != "multi" &&
             name != "reset" && name != "quit") {
    wrong = CheckQueued(command, name);
  } else {
    const auto handler = Handlers().find(name);
    wrong = handler == Handlers().end() ? Single(command) : (this->*handler->second)(command);
  }
  talker.start = moment_;
  talker.start_ms = world_.unix_ms();
  return wrong;
}

std::string Model::CheckQueued(Command& command, std::string_view name) {
  Talker& talker = command.talker;
  std::string expected = "+QUEUED\r\n";
  if (name == "nosuch") {
    expected = "-ERR unknown command 'NOSUCH', with args beginning with: ";
    for (std::size_t i = 1; i < command.words.size(); ++i) {
      expected += fmt::format("'{}' ", command.words[i]);
    }
    expected += "\r\n";
  } else if (name == "get" && command.words.size() == 1) {
    expected = "-ERR wrong number of arguments for 'get' command\r\n";
  }
  if (expected[0] == '-') {
    talker.multi_failed = true;
  } else {
    talker.queued.push_back(command.words);
  }
  return Differs(command.reply, expected);
}

// --- one key ---

std::string Model::Single(Command& command) {
  const std::string name = Lower(command.words[0]);
  if (name == "nosuch") {
    return command.reply.starts_with("-ERR unknown command 'NOSUCH'") ? "" : "is no error";
  }
  if (command.words.size() == 1) {
    return Differs(command.reply,
                   fmt::format("-ERR wrong number of arguments for '{}' command\r\n", name));
  }
  const std::string& key = command.words[name == "object" ? 2 : 1];
  return One(command, {command.talker.db, key}, command.words, command.reply, command.dropped);
}

// What a command that has not been answered may have made of a key.
std::vector<State> Model::StatesBehind(const OpenCommand& open, const KeyName& name,
                                       const Key& key) const {
  std::vector<State> states;
  if (open.db != name.first || !IsWrite(open.words)) return states;
  // It may have decided by what the key was at any time since it began.
  const auto add = [&](const Words& words) {
    for (const State& before : key.now) AddBehind(open, words, before, &states);
    for (const State& before : key.past) {
      if (before.until > open.start) AddBehind(open, words, before, &states);
    }
  };
  const std::string verb = Lower(open.words[0]);
  if (verb != "mset" && verb != "msetnx") {
    if (open.words.size() > 1 && open.words[1] == name.second) add(open.words);
    return states;
  }
  // Pair by pair: who stops it in between has some of them.
  for (std::size_t i = 1; i + 1 < open.words.size(); i += 2) {
    if (open.words[i] == name.second) add({"SET", name.second, open.words[i + 1]});
  }
  return states;
}

void Model::AddBehind(const OpenCommand& open, const Words& words, const State& before,
                      std::vector<State>* states) const {
  const std::int64_t now = world_.unix_ms();
  for (const bool alive : {true, false}) {
    if (alive ? !MayBeAlive(before, open.start_ms) : !MayBeGone(before, now)) continue;
    std::vector<Outcome> outcomes;
    OutcomesOf({words, 2, open.start_ms, now, rules_, true, true}, before, alive, &outcomes);
    for (Outcome& outcome : outcomes) {
      if (!outcome.changes) continue;
      outcome.next.command = open.command;
      // As of one that is answered: written past its own end it is there for this moment.
      if (outcome.next.there) outcome.next.end_to = std::max(outcome.next.end_to, now + 1);
      states->push_back(std::move(outcome.next));
    }
  }
}

std::vector<State> Model::OpenStates(const Talker& talker, const KeyName& name, const Key& key) {
  std::vector<State> states;
  for (const OpenCommand& open : world_.open_commands(&talker)) {
    for (State& state : StatesBehind(open, name, key)) states.push_back(std::move(state));
  }
  return states;
}

std::string Model::One(Command& command, const KeyName& name, const Words& words,
                       std::string_view reply, std::uint64_t dropped) {
  Key& key = KeyOf(name);
  const Talker& talker = command.talker;
  const std::int64_t now = world_.unix_ms();
  const std::int64_t from = command.waited ? talker.start_ms : now;
  const OnKey on{
      words, talker.protocol, from, now, rules_, world_.reads_may_fail(), world_.is_faulty()};
  std::vector<State> finals;
  std::string expected;
  bool fits_past = false;
  const auto attempt = [&](const State& state, bool is_past) {
    for (const bool alive : {true, false}) {
      if (alive ? !MayBeAlive(state, from) : !MayBeGone(state, now)) continue;
      std::vector<Outcome> outcomes;
      OutcomesOf(on, state, alive, &outcomes);
      for (Outcome& outcome : outcomes) {
        const bool fits = outcome.fits ? outcome.fits(reply) : reply == outcome.reply;
        if (!fits) {
          if (!outcome.refused && expected.empty()) expected = outcome.reply;
          continue;
        }
        // What the counters say of drops settles it.
        const bool is_drop = outcome.changes && !outcome.next.there && reply == "+OK\r\n";
        if (is_drop != (dropped > 0) && outcome.changes && reply == "+OK\r\n" &&
            dropped != ~std::uint64_t{0}) {
          continue;
        }
        if (is_past) fits_past = true;
        if (is_past && !outcome.changes) continue;
        if (is_past && state.until != key.left_at) continue;  // Others wrote behind it.
        State next = outcome.changes ? std::move(outcome.next) : state;
        if (outcome.changes) {
          next.since = moment_;
          next.until = kStillSo;
          next.command = command.number;
          next.is_base = false;
          // One that waited past its own end is there for this moment.
          if (command.waited && next.there) next.end_to = std::max(next.end_to, now + 1);
        }
        finals.push_back(std::move(next));
      }
    }
  };
  for (const State& state : key.now) attempt(state, false);
  for (const State& state : key.past) {
    if (state.until > talker.start && (command.waited || key.left_at == state.until)) {
      attempt(state, true);
    }
  }
  if (fits_past) finals.insert(finals.end(), key.now.begin(), key.now.end());
  if (finals.empty()) {
    for (State& state : OpenStates(talker, name, key)) {
      state.since = moment_;
      attempt(state, false);
    }
  }
  if (finals.empty()) {
    std::string states;
    for (const State& state : key.now) {
      states += state.there ? fmt::format(" [{}{} {} bytes, ends {}..{}]",
                                          state.value.is_number ? "n" : "", state.value.number,
                                          state.value.size, state.end_from, state.end_to)
                            : std::string(" [missing]");
    }
    return fmt::format(
        "'{}' is wrong{}; {} of database {} is{}, at {}{}", Shown(reply),
        expected.empty() ? "" : fmt::format(" ('{}' would be right)", Shown(expected)),
        Shown(std::string_view(name.second)), name.first, states, now,
        command.waited ? fmt::format(", waited since {}", from) : "");
  }
  Settle(&key, name, std::move(finals), talker.start);
  return {};
}

// It is in one of these now. What the cache has announced meanwhile, and whether it
// is there, may say more.
void Model::Settle(Key* key, const KeyName& name, std::vector<State> finals, Moment start) {
  const Moment flushed = flushed_[static_cast<std::size_t>(name.first)];
  for (const Moment since : {key->left_at, flushed}) {  // While it waited.
    if (since <= start) continue;
    State gone;
    gone.since = since;
    finals.push_back(gone);
  }
  const bool may_have_left = std::max(key->left_at, flushed) > start;
  std::vector<State> distinct;
  for (State& state : finals) {
    const bool known =
        std::ranges::any_of(distinct, [&](const State& other) { return other.SameAs(state); });
    if (!known) distinct.push_back(std::move(state));
  }
  const std::int64_t now = world_.unix_ms();
  const auto alive = [&](const State& s) { return MayBeAlive(s, now); };
  const bool mixed = std::ranges::any_of(distinct, alive) && !std::ranges::all_of(distinct, alive);
  const auto is_written = [&](const State& s) { return s.command != 0 && s.since == moment_; };
  std::vector<State> written;
  std::ranges::copy_if(distinct, std::back_inserter(written), is_written);
  if (mixed && !key->may_come && world_.is_open()) {
    const bool is = world_.is_there(name);
    // What was written past its own end is in the cache, and counts, until that is noticed.
    const auto dead = [&](const State& s) { return s.there && MayBeGone(s, now); };
    const bool is_dead = world_.is_dead(name) && std::ranges::any_of(distinct, dead);
    std::erase_if(distinct, [&](const State& s) { return is_dead ? !dead(s) : alive(s) != is; });
  }
  // A write stands, whatever the disk still brings.
  if (key->may_come) {
    if (std::ranges::all_of(distinct, is_written)) key->may_come = false;
  }
  Replace(key, std::move(distinct));
  // Written, and gone again before the answer: after a crash it may be back.
  for (State& state : written) {
    const bool stays =
        std::ranges::any_of(key->now, [&](const State& other) { return other.SameAs(state); });
    if (!stays && !may_have_left) continue;
    key->ever.push_back(state);
    if (stays) continue;
    state.until = moment_;
    key->past.push_back(std::move(state));
  }
}

void Model::Replace(Key* key, std::vector<State> finals) {
  for (State& before : key->now) {
    const bool stays = std::ranges::any_of(
        finals, [&](State& state) { return state.SameAs(before) && state.since == before.since; });
    if (stays) continue;
    before.until = moment_;
    key->past.push_back(before);
  }
  constexpr std::size_t kPastMax = 64;
  if (key->past.size() > kPastMax) {
    key->past.erase(key->past.begin(), key->past.end() - kPastMax / 2);
  }
  key->now = std::move(finals);
}

// --- what the cache announces ---

std::string Model::Left(const KeyName& name, Action action, Reason reason) {
  Tick();
  Key& key = KeyOf(name);
  const std::int64_t now = world_.unix_ms();
  if (action == Action::kExpire && !rules_.idle_ttl && !key.may_come &&
      world_.open_commands(nullptr).empty() &&
      std::ranges::none_of(key.now, [&](const State& s) { return MayBeGone(s, now); })) {
    return fmt::format("{} of database {} is said to have expired ({}), and its time is not over",
                       Shown(std::string_view(name.second)), name.first, spillway::Name(reason));
  }
  key.left_at = moment_;
  key.may_come = false;
  State gone;
  gone.since = moment_;
  Replace(&key, {gone});
  return {};
}

void Model::GiveUp(const OpenCommand& open) {
  if (!IsWrite(open.words) || open.words.size() < 2) return;
  Tick();
  const std::string verb = Lower(open.words[0]);
  const bool pairs = verb == "mset" || verb == "msetnx";
  for (std::size_t i = 1; i < open.words.size(); i += 2) {
    const KeyName name{open.db, open.words[i]};
    Key& key = KeyOf(name);
    std::vector<State> states = key.now;
    for (State& state : StatesBehind(open, name, key)) {
      state.since = moment_;
      states.push_back(std::move(state));
    }
    Settle(&key, name, std::move(states), moment_);
    if (!pairs) return;
  }
}

// --- ends ---

void Model::Restart(bool strict, bool crashed, bool trusted, const std::vector<OpenCommand>& open) {
  for (const OpenCommand& one : open) GiveUp(one);
  Tick();
  for (auto& [name, key] : keys_) {
    std::vector<State> may = key.now;
    const auto is_safe = [&](const State& s) {
      return s.is_base || (s.command != 0 && IsAcknowledged(s.command));
    };
    if (crashed && !std::ranges::all_of(key.now, is_safe)) {
      for (std::size_t i = key.past.size(); i-- > 0;) {
        may.push_back(key.past[i]);
        if (is_safe(key.past[i])) break;
      }
    }
    if (!trusted) may.insert(may.end(), key.ever.begin(), key.ever.end());
    const bool known_gone = std::ranges::any_of(may, [](const State& s) { return !s.there; });
    if (!known_gone) may.emplace_back();
    key.must_come = strict && !known_gone;
    key.past.clear();
    key.now.clear();
    for (State& state : may) {
      const bool known =
          std::ranges::any_of(key.now, [&](const State& other) { return other.SameAs(state); });
      if (known) continue;
      state.since = moment_;
      state.until = kStillSo;
      state.is_base = true;
      key.now.push_back(std::move(state));
    }
    key.left_at = 0;
    key.may_come = true;
  }
}

std::string Model::Loaded() {
  Tick();
  const std::int64_t now = world_.unix_ms();
  for (auto& [name, key] : keys_) {
    if (!std::exchange(key.may_come, false)) continue;
    const bool is = world_.is_there(name);
    const bool must = std::exchange(key.must_come, false);
    if (must && !is && std::ranges::none_of(key.now, [&](const State& s) {
          return s.there && s.end_from <= now;
        })) {
      return fmt::format(
          "{} of database {} was there when the daemon was stopped, and did not "
          "come back",
          Shown(std::string_view(name.second)), name.first);
    }
    std::vector<State> left;
    for (const State& state : key.now) {
      if (is ? MayBeAlive(state, now) : MayBeGone(state, now)) left.push_back(state);
    }
    if (left.empty()) {
      return fmt::format("{} of database {} {} behind the restart",
                         Shown(std::string_view(name.second)), name.first,
                         is ? "is there" : "is missing");
    }
    Replace(&key, std::move(left));
  }
  return {};
}

}  // namespace spillway::serversim
