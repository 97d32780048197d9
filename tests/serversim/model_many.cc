// SPDX-License-Identifier: Apache-2.0
// Commands on several keys, or on all of a database.
#include <algorithm>
#include <charconv>
#include <set>

#include <fmt/format.h>

#include "serversim/model.h"

namespace spillway::serversim {

const std::map<std::string, Model::Handler, std::less<>>& Model::Handlers() {
  static const std::map<std::string, Handler, std::less<>> handlers = {
      {"mget", &Model::MGet},
      {"mset", &Model::MSet},
      {"msetnx", &Model::MSetNx},
      {"del", &Model::CountKeys},
      {"unlink", &Model::CountKeys},
      {"exists", &Model::CountKeys},
      {"touch", &Model::CountKeys},
      {"dbsize", &Model::DbSize},
      {"keys", &Model::Keys},
      {"scan", &Model::Scan},
      {"randomkey", &Model::RandomKey},
      {"flushdb", &Model::Flush},
      {"flushall", &Model::Flush},
      {"info", &Model::Info},
      {"ping", &Model::Ping},
      {"echo", &Model::Echo},
      {"select", &Model::Select},
      {"multi", &Model::Multi},
      {"exec", &Model::Exec},
      {"discard", &Model::Discard},
      {"hello", &Model::Hello},
      {"reset", &Model::Reset},
      {"client", &Model::ClientName},
      {"spill.begin", &Model::Begin},
      {"spill.append", &Model::Append},
      {"spill.commit", &Model::Commit},
      {"spill.prefetch", &Model::Whatever},
      {"spill.match", &Model::Whatever},
      {"spill.pressure", &Model::Whatever},
      {"spill.reclaim", &Model::Whatever},
      {"spill.mode", &Model::Whatever},
      {"spill.stats", &Model::Whatever},
      {"spill.explain", &Model::Whatever},
      {"quit", &Model::Whatever}};
  return handlers;
}

std::string Model::MGet(Command& command) {
  if (command.reply.starts_with("-ERR the value could not be read") && world_.reads_may_fail()) {
    return {};
  }
  const auto elements = Elements(command.reply);
  if (!elements || elements->size() + 1 != command.words.size()) {
    return fmt::format("'{}' has not {} elements", Shown(command.reply), command.words.size() - 1);
  }
  for (std::size_t i = 0; i < elements->size(); ++i) {
    const std::string& key = command.words[i + 1];
    std::string wrong = One(command, {command.talker.db, key}, {"GET", key}, (*elements)[i], 0);
    if (!wrong.empty()) return wrong;
  }
  return {};
}

std::string Model::MSet(Command& command) {
  bool refused = command.reply == kOom;
  const bool too_large = std::ranges::any_of(
      command.words, [&](const std::string& word) { return word.size() > rules_.value_max; });
  if (command.reply.starts_with("-ERR ") && (too_large || world_.is_faulty())) refused = true;
  if (!refused && command.reply != "+OK\r\n") return Differs(command.reply, "+OK\r\n");
  if (command.reply == kOom && (rules_.roomy || rules_.drop)) return "was refused";
  // Of some that were dropped it is not known which.
  const std::size_t pairs = (command.words.size() - 1) / 2;
  const bool is_known = !command.waited && (command.dropped == 0 || command.dropped == pairs);
  const std::uint64_t dropped = is_known ? command.dropped : ~std::uint64_t{0};
  for (std::size_t i = 1; i + 1 < command.words.size(); i += 2) {
    const KeyName name{command.talker.db, command.words[i]};
    const Words words{"SET", name.second, command.words[i + 1]};
    if (refused) {  // Each was written, or not.
      Key& key = KeyOf(name);
      std::vector<State> finals = key.now;
      const Talker& talker = command.talker;
      OpenCommand open{&talker, words, name.first, talker.start, talker.start_ms, command.number};
      for (State& state : StatesBehind(open, name, key)) {
        state.since = moment_;
        finals.push_back(std::move(state));
      }
      Settle(&key, name, std::move(finals), command.talker.start);
      continue;
    }
    // A key that is named twice has its last value.
    std::string wrong = One(command, name, words, "+OK\r\n", dropped);
    if (!wrong.empty()) return wrong;
  }
  return {};
}

// All or none.
std::string Model::MSetNx(Command& command) {
  if (command.reply == kOom) return rules_.roomy ? "was refused" : "";
  const bool too_large = std::ranges::any_of(
      command.words, [&](const std::string& word) { return word.size() > rules_.value_max; });
  if (command.reply.starts_with("-ERR ") && (too_large || world_.is_faulty())) return {};
  if (command.reply != Integer(0) && command.reply != Integer(1)) {
    return Differs(command.reply, Integer(1));
  }
  if (command.reply == Integer(0)) {
    for (std::size_t i = 1; i + 1 < command.words.size(); i += 2) {
      const Range is =
          Presence({command.talker.db, command.words[i]}, command.talker, command.waited, false);
      if (is.most > 0) return {};
    }
    return "none of its keys is there, and it answers 0";
  }
  std::set<std::string> done;
  for (std::size_t i = 1; i + 1 < command.words.size(); i += 2) {
    const KeyName name{command.talker.db, command.words[i]};
    const bool first = done.insert(name.second).second;
    std::string wrong =
        One(command, name, {first ? "SETNX" : "SET", name.second, command.words[i + 1]},
            first ? Integer(1) : "+OK\r\n", 0);
    if (!wrong.empty()) return wrong;
  }
  return {};
}

Model::Range Model::Presence(const KeyName& name, const Talker& talker, bool waited,
                             bool counts_dead) {
  const Key& key = KeyOf(name);
  const std::int64_t now = world_.unix_ms();
  const std::int64_t from = waited ? talker.start_ms : now;
  Range range{1, 0};
  const auto see = [&](const State& state) {
    if (MayBeGone(state, now)) range.least = 0;
    if (counts_dead ? state.there : MayBeAlive(state, from)) range.most = 1;
  };
  for (const State& state : key.now) see(state);
  for (const State& state : key.past) {
    if (state.until > talker.start && (waited || key.left_at == state.until)) see(state);
  }
  for (const State& state : OpenStates(talker, name, key)) see(state);
  return range;
}

// DEL, UNLINK, EXISTS and TOUCH.
std::string Model::CountKeys(Command& command) {
  if (command.words.size() == 2) return Single(command);
  const std::string verb = Lower(command.words[0]);
  const bool erases = verb == "del" || verb == "unlink";
  Range count;
  std::set<std::string> done;
  for (std::size_t i = 1; i < command.words.size(); ++i) {
    if (!done.insert(command.words[i]).second && erases) continue;
    const Range is =
        Presence({command.talker.db, command.words[i]}, command.talker, command.waited, false);
    count.least += is.least;
    count.most += is.most;
  }
  const auto number = NumberOf(command.reply);
  if (!number || *number < count.least || *number > count.most) {
    return fmt::format("'{}' is not {}..{}", Shown(command.reply), count.least, count.most);
  }
  if (!erases) return {};
  for (const std::string& word : done) {
    Key& key = KeyOf({command.talker.db, word});
    State gone;
    gone.since = moment_;
    gone.command = command.number;
    Settle(&key, {command.talker.db, word}, {gone}, command.talker.start);
  }
  return {};
}

// A command that waits may have written its key before it is answered.
void Model::KnowKeysOf(const OpenCommand& open) {
  if (open.words.size() < 2 || !IsWrite(open.words)) return;
  const std::string verb = Lower(open.words[0]);
  const bool pairs = verb == "mset" || verb == "msetnx";
  for (std::size_t i = 1; i < (pairs ? open.words.size() : 2); i += 2) {
    KeyOf({open.db, open.words[i]});
  }
}

Model::Range Model::CountOf(int db, bool with_end) {
  Range count;
  Talker nobody;
  nobody.start = moment_;
  for (const OpenCommand& open : world_.open_commands(nullptr)) KnowKeysOf(open);
  for (const auto& [name, key] : keys_) {
    if (name.first != db) continue;
    const auto ends = [&](const State& s) { return s.there && s.end_from != kNever; };
    // A command that is not answered yet may have given it another deadline, or none.
    const auto open = OpenStates(nobody, name, key);
    const bool may_end = std::ranges::any_of(key.now, ends) || std::ranges::any_of(open, ends);
    if (with_end && !may_end) continue;
    const bool must_end = std::ranges::all_of(key.now, ends) && std::ranges::all_of(open, ends);
    const Range is = Presence(name, nobody, false, true);
    count.least += with_end && !must_end ? 0 : is.least;
    count.most += is.most;
  }
  return count;
}

std::string Model::DbSize(Command& command) {
  const auto number = NumberOf(command.reply);
  if (!number) return "is no number";
  const Range count = CountOf(command.talker.db);
  if (*number >= count.least && *number <= count.most) return {};
  return fmt::format("DBSIZE of database {} is {}, and it has {}..{} keys", command.talker.db,
                     *number, count.least, count.most);
}

std::string Model::Listed(Command& command, const std::vector<std::string_view>& names) {
  std::set<std::string> listed;
  for (const std::string_view name : names) {
    const auto text = TextOfBulk(name);
    if (!text) return fmt::format("'{}' is no key", Shown(name));
    if (!listed.emplace(*text).second) {
      return fmt::format("lists {} twice", Shown(*text));
    }
    if (Presence({command.talker.db, std::string(*text)}, command.talker, command.waited, false)
            .most == 0) {
      return fmt::format("lists {}, which is not in database {}", Shown(*text), command.talker.db);
    }
  }
  for (const auto& [name, key] : keys_) {
    if (name.first != command.talker.db || listed.contains(name.second)) continue;
    if (Presence(name, command.talker, command.waited, false).least > 0) {
      return fmt::format("does not list {}, which is in database {}",
                         Shown(std::string_view(name.second)), name.first);
    }
  }
  return {};
}

std::string Model::Keys(Command& command) {
  const auto elements = Elements(command.reply);
  return elements ? Listed(command, *elements) : "is no list";
}

// With a COUNT that takes in all.
std::string Model::Scan(Command& command) {
  const auto elements = Elements(command.reply);
  if (!elements || elements->size() != 2 || (*elements)[0] != Bulk("0")) return "is no whole scan";
  const auto names = Elements((*elements)[1]);
  return names ? Listed(command, *names) : "is no list";
}

std::string Model::RandomKey(Command& command) {
  if (const auto text = TextOfBulk(command.reply)) {
    const KeyName name{command.talker.db, std::string(*text)};
    if (Presence(name, command.talker, command.waited, false).most > 0) return {};
    return fmt::format("'{}' is no key of database {}", Shown(*text), command.talker.db);
  }
  if (command.reply != Null(command.talker.protocol)) return "is no key";
  for (const auto& [name, key] : keys_) {
    if (name.first != command.talker.db) continue;
    if (Presence(name, command.talker, command.waited, false).least > 0) {
      return fmt::format("says there is no key in database {}", command.talker.db);
    }
  }
  return {};
}

std::string Model::Flush(Command& command) {
  if (command.reply != "+OK\r\n") return Differs(command.reply, "+OK\r\n");
  const bool all = Lower(command.words[0]) == "flushall";
  for (int db = 0; db < kDbs; ++db) {
    if (all || db == command.talker.db) flushed_[static_cast<std::size_t>(db)] = moment_;
  }
  for (auto& [name, key] : keys_) {
    if (!all && name.first != command.talker.db) continue;
    State gone;
    gone.since = moment_;
    gone.command = command.number;
    key.may_come = false;
    Replace(&key, {gone});
  }
  return {};
}

// INFO keyspace: db0:keys=3,expires=1,avg_ttl=0.
std::string Model::Info(Command& command) {
  const auto text = TextOfBulk(command.reply);
  if (!text) return "is no text";
  if (world_.is_loading()) return {};
  for (int db = 0; db < kDbs; ++db) {
    const Range keys = CountOf(db);
    const Range ends = CountOf(db, true);
    std::int64_t told_keys = 0;
    std::int64_t told_ends = 0;
    const std::string head = fmt::format("db{}:keys=", db);
    if (const std::size_t at = text->find(head); at != std::string_view::npos) {
      const std::string_view rest = text->substr(at + head.size());
      std::from_chars(rest.data(), rest.data() + rest.size(), told_keys);
      const std::size_t expires = rest.find("expires=");
      if (expires == std::string_view::npos) return "says nothing of expires";
      std::from_chars(rest.data() + expires + 8, rest.data() + rest.size(), told_ends);
    }
    if (told_keys < keys.least || told_keys > keys.most || told_ends < ends.least ||
        told_ends > ends.most) {
      return fmt::format("database {} is said to have {} keys, {} that end; it has {}..{}, {}..{}",
                         db, told_keys, told_ends, keys.least, keys.most, ends.least, ends.most);
    }
  }
  return {};
}

}  // namespace spillway::serversim
