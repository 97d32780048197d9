// SPDX-License-Identifier: Apache-2.0
// What belongs to one connection: its database, its protocol, transactions, values in
// pieces.
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "serversim/model.h"

namespace spillway::serversim {

namespace {

// A value in pieces without progress may be given up after this.
constexpr Duration kUploadPatience = std::chrono::seconds(1);
constexpr std::string_view kGivenUp = "-ERR the room of SPILL.BEGIN was given to another write";

std::int64_t NumberIn(std::string_view text) {
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

std::string Model::Ping(Command& command) {
  return Differs(command.reply, command.words.size() == 1 ? "+PONG\r\n" : Bulk(command.words[1]));
}

std::string Model::Echo(Command& command) { return Differs(command.reply, Bulk(command.words[1])); }

std::string Model::Select(Command& command) {
  const std::int64_t db = NumberIn(command.words[1]);
  if (db < 0 || db >= kDbs) return Differs(command.reply, "-ERR DB index is out of range\r\n");
  command.talker.db = static_cast<int>(db);
  return Differs(command.reply, "+OK\r\n");
}

std::string Model::Multi(Command& command) {
  if (std::exchange(command.talker.in_multi, true)) {
    return Differs(command.reply, "-ERR MULTI calls can not be nested\r\n");
  }
  return Differs(command.reply, "+OK\r\n");
}

// What was queued has been told of before, one by one, with the array's header.
std::string Model::Exec(Command& command) {
  Talker& talker = command.talker;
  if (!talker.in_multi) return Differs(command.reply, "-ERR EXEC without MULTI\r\n");
  std::string expected;
  if (talker.multi_failed) {
    expected = "-EXECABORT Transaction discarded because of previous errors.\r\n";
  } else if (talker.exec_at != talker.queued.size()) {
    return fmt::format("EXEC has ended behind {} of {} commands", talker.exec_at,
                       talker.queued.size());
  } else if (talker.queued.empty()) {
    expected = "*0\r\n";
  }
  talker.EndMulti();
  return Differs(command.reply, expected);
}

std::string Model::Discard(Command& command) {
  if (!command.talker.in_multi) return Differs(command.reply, "-ERR DISCARD without MULTI\r\n");
  command.talker.EndMulti();
  return Differs(command.reply, "+OK\r\n");
}

std::string Model::Hello(Command& command) {
  if (command.words.size() > 1) {
    command.talker.protocol = static_cast<int>(NumberIn(command.words[1]));
  }
  const auto elements = Elements(command.reply);
  if (!elements || elements->size() != 14 || (*elements)[4] != Bulk("proto") ||
      (*elements)[5] != Integer(command.talker.protocol) ||
      command.reply[0] != (command.talker.protocol == 3 ? '%' : '*')) {
    return fmt::format("'{}' is no hello", Shown(command.reply));
  }
  return {};
}

std::string Model::Reset(Command& command) {
  command.talker.EndMulti();
  command.talker.db = 0;
  command.talker.protocol = 2;
  command.talker.name.clear();
  command.talker.upload.reset();
  return Differs(command.reply, "+RESET\r\n");
}

std::string Model::ClientName(Command& command) {
  if (Lower(command.words[1]) == "getname") {
    return Differs(command.reply, command.talker.name.empty() ? Null(command.talker.protocol)
                                                              : Bulk(command.talker.name));
  }
  command.talker.name = command.words[2];
  return Differs(command.reply, "+OK\r\n");
}

// SPILL.BEGIN key bytes NUMBER n [TOKENS t] [TTL 5ms]: NUMBER is for us alone, and is
// taken out before it is sent.
std::string Model::Begin(Command& command) {
  Talker& talker = command.talker;
  talker.upload.reset();
  talker.upload_given_up = false;
  const auto size = static_cast<Bytes>(NumberIn(command.words[2]));
  if (command.reply != "+OK\r\n") {
    if (command.reply == kOom && !rules_.roomy) return {};
    if (size > rules_.value_max && command.reply.starts_with("-ERR ")) return {};
    return Differs(command.reply, "+OK\r\n");
  }
  Upload upload;
  upload.key = {talker.db, command.words[1]};
  upload.value.size = size;
  for (std::size_t i = 3; i + 1 < command.words.size(); i += 2) {
    const std::string word = Lower(command.words[i]);
    if (word == "tokens") upload.tokens = NumberIn(command.words[i + 1]);
    if (word == "ttl") upload.ttl_ms = NumberIn(command.words[i + 1]);
  }
  talker.upload = upload;
  // Of one that never came the time goes on.
  if (talker.upload_progress == TimePoint{}) talker.upload_progress = world_.now();
  return {};
}

std::string Model::Append(Command& command) {
  Talker& talker = command.talker;
  if (!talker.upload) {
    return command.reply.starts_with(
               talker.upload_given_up ? kGivenUp : "-ERR SPILL.APPEND without SPILL.BEGIN")
               ? ""
               : "is another error";
  }
  const bool late = world_.now() - talker.upload_progress >= kUploadPatience;
  if (late && command.reply.starts_with(kGivenUp)) {
    talker.upload.reset();
    talker.upload_given_up = true;
    talker.upload_progress = {};
    return {};
  }
  Upload& upload = *talker.upload;
  if (command.words[1].size() > upload.value.size - upload.filled) {
    return command.reply.starts_with("-ERR ") ? "" : "is no error";
  }
  if (upload.filled == 0)
    upload.value.number = static_cast<std::uint64_t>(NumberIn(command.words[1]));
  upload.filled += command.words[1].size();  // Never so many that its time begins anew.
  return Differs(command.reply, Integer(static_cast<std::int64_t>(upload.filled)));
}

std::string Model::Commit(Command& command) {
  Talker& talker = command.talker;
  if (!talker.upload) {
    return command.reply.starts_with(
               talker.upload_given_up ? kGivenUp : "-ERR SPILL.COMMIT without SPILL.BEGIN")
               ? ""
               : "is another error";
  }
  const bool late = world_.now() - talker.upload_progress >= kUploadPatience;
  const Upload upload = *talker.upload;
  if (late && command.reply.starts_with(kGivenUp)) {
    talker.upload.reset();
    talker.upload_given_up = true;
    talker.upload_progress = {};
    return {};
  }
  if (upload.filled != upload.value.size) {
    return Differs(command.reply, fmt::format("-ERR only {} of {} bytes are there\r\n",
                                              upload.filled, upload.value.size));
  }
  talker.upload.reset();
  talker.upload_progress = {};
  if (command.reply == kOom && !rules_.roomy) return {};
  if (command.reply != "+OK\r\n") return Differs(command.reply, "+OK\r\n");
  State next;
  next.there = true;
  next.value = upload.value;
  next.tokens = upload.tokens;
  if (upload.ttl_ms > 0) {
    const std::int64_t now = world_.unix_ms();
    next.end_from = now + upload.ttl_ms;
    next.end_to = now + upload.ttl_ms + 1;
  }
  next.since = moment_;
  next.command = command.number;
  Settle(&KeyOf(upload.key), upload.key, {next}, talker.start);
  return {};
}

std::string Model::Whatever(Command& command) {
  return ReplyBytes(command.reply) == command.reply.size() ? "" : "is no whole reply";
}

}  // namespace spillway::serversim
