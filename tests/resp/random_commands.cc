// SPDX-License-Identifier: Apache-2.0
#include "resp/random_commands.h"

#include <cctype>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <sstream>

namespace spillway::resp {

namespace {

struct Form {
  std::string_view text;
  int weight;
  Sameness sameness = Sameness::kBytes;
  bool in_multi = true;
  // One that counts from now on: s, m or S, and some others.
  bool sets_deadline() const {
    return text.find(" s") != text.npos || text.find(" m") != text.npos ||
           text.find(" S") != text.npos;
  }
};

constexpr Form kForms[] = {
    {"GET K", 30},
    {"SET K V", 30},
    {"SET K V NX", 3},
    {"SET K V XX", 3},
    {"SET K V GET", 3},
    {"SET K V NX GET", 2},
    {"SET K V XX GET", 2},
    {"SET K V EX s", 4},
    {"SET K V PX m", 3},
    {"SET K V EXAT U", 2},
    {"SET K V PXAT W", 2},
    {"SET K V KEEPTTL", 3},
    {"SET K V NX EX s", 2},
    {"SET K V EX s NX GET", 2},
    {"SET K V EX", 1},
    {"SET K V NX XX", 1},
    {"SET K V EX s PX m", 1},
    {"SET K V KEEPTTL EX s", 1},
    {"SET K V EX s EX s", 1},
    {"SET K V PX m PX m NX", 1},
    {"SET K V KEEPTTL KEEPTTL", 1},
    {"SET K V NX NX", 1},
    {"SET K V GET GET", 1},
    {"SET K V BOGUS", 1},
    {"SET K", 1},
    {"SETNX K V", 4},
    {"SETEX K s V", 4},
    {"PSETEX K m V", 3},
    {"GETSET K V", 4},
    {"GETDEL K", 4},
    {"GETEX K", 2},
    {"GETEX K EX s", 3},
    {"GETEX K PX m", 2},
    {"GETEX K EXAT U", 2},
    {"GETEX K PXAT W", 1},
    {"GETEX K PERSIST", 3},
    {"GETEX K PERSIST EX s", 1},
    {"GETEX K EX s EX s", 1},
    {"GETEX K PERSIST PERSIST", 1},
    {"GETEX K PX m EX s", 1},
    {"GETEX K BOGUS", 1},
    {"MGET K", 3},
    {"MGET K K K K", 4},
    {"MSET K V", 2},
    {"MSET K V K V K V", 4},
    {"MSET K V K", 1},
    {"MSETNX K V K V", 3},
    {"MSETNX K V K", 1},
    {"STRLEN K", 4},
    {"GETRANGE K N N", 6},
    {"SUBSTR K N N", 2},
    {"GETBIT K N", 3},
    {"DEL K", 8},
    {"DEL K K K", 4},
    {"UNLINK K K", 3},
    {"EXISTS K", 5},
    {"EXISTS K K K", 3},
    {"TOUCH K K", 3},
    {"TYPE K", 4},
    {"EXPIRE K s", 5},
    {"EXPIRE K S NX", 2},
    {"EXPIRE K S XX", 2},
    {"EXPIREAT K U GT", 3},
    {"EXPIREAT K U LT", 3},
    {"EXPIRE K S NX NX", 1},
    {"EXPIREAT K U GT GT", 1},
    {"EXPIRE K S NX GT", 1},
    {"EXPIRE K S GT LT", 1},
    {"EXPIRE K S BOGUS", 1},
    {"EXPIREAT K U XX GT", 1},
    {"PEXPIRE K m", 3},
    {"PEXPIREAT K W GT", 2},
    {"EXPIREAT K U", 3},
    {"PEXPIREAT K W", 3},
    {"PEXPIREAT K W LT", 2},
    {"PERSIST K", 5},
    {"TTL K", 4, Sameness::kSeconds},
    {"PTTL K", 4, Sameness::kMillis},
    {"EXPIRETIME K", 3, Sameness::kSeconds},
    {"PEXPIRETIME K", 3, Sameness::kMillis},
    {"SET A V PXAT W", 4},
    {"SET A V EXAT U", 2},
    {"SET A V KEEPTTL", 2},
    {"GETEX A PXAT W", 3},
    {"GETEX A EXAT U", 2},
    {"PEXPIREAT A W", 4},
    {"PEXPIREAT A W GT", 2},
    {"PEXPIREAT A W LT", 2},
    {"PERSIST A", 1},
    {"GET A", 3},
    {"DEL A", 1},
    {"PEXPIRETIME A", 8},
    {"EXPIRETIME A", 2},
    {"PTTL A", 2, Sameness::kMillis},
    {"KEYS P", 2, Sameness::kAnyOrder},
    {"KEYS *", 1, Sameness::kAnyOrder},
    {"SCAN 0 COUNT 1000000", 2, Sameness::kAnyOrder},
    {"SCAN 0 COUNT 1000000 MATCH P", 2, Sameness::kAnyOrder},
    {"SCAN 0 COUNT 1000000 TYPE string", 1, Sameness::kAnyOrder},
    {"SCAN 0 COUNT 1000000 TYPE hash", 1, Sameness::kAnyOrder},
    {"SCAN bogus", 1},
    {"SCAN 0 COUNT 0", 1},
    {"SCAN 0 COUNT x", 1},
    {"SCAN 0 BOGUS", 1},
    {"RANDOMKEY", 1, Sameness::kKind},
    {"DBSIZE", 3},
    {"FLUSHDB", 1},
    {"FLUSHDB ASYNC", 1},
    {"FLUSHDB BOGUS", 1},
    {"FLUSHALL", 1},
    {"PING", 2},
    {"PING V", 2},
    {"PING V V", 1},
    {"ECHO V", 2},
    {"SELECT D", 6},
    {"SELECT N", 1},
    {"SELECT 0", 1},
    {"SELECT 16", 1},
    {"OBJECT ENCODING K", 3},
    {"OBJECT FREQ K", 1},
    {"OBJECT BOGUS K", 1},
    {"OBJECT", 1},
    {"CLIENT SETNAME K", 1},
    {"CLIENT GETNAME", 1},
    {"CLIENT ID", 1, Sameness::kKind},
    {"CLIENT BOGUS", 1},
    {"CLIENT NO-EVICT ON", 1},
    {"CLIENT NO-EVICT BOGUS", 1},
    {"CONFIG GET nosuchsetting", 1},
    {"CONFIG SET nosuchsetting 1", 1},
    {"CONFIG GET", 1},
    {"CONFIG BOGUS", 1},
    {"AUTH V", 1},
    {"AUTH default V", 1},
    {"AUTH nobody V", 1},
    {"HELLO 2", 1, Sameness::kHello, false},
    {"HELLO 3", 1, Sameness::kHello, false},
    {"HELLO 4", 1},
    {"HELLO x", 1},
    {"HELLO 3 BOGUS", 1},
    {"HELLO 3 SETNAME K", 1, Sameness::kHello, false},
    {"RESET", 1, Sameness::kBytes, false},
    {"MULTI", 3, Sameness::kBytes, false},
    {"EXEC", 2},
    {"DISCARD", 1},
    {"MODULE LIST", 1},
    {"FUNCTION FLUSH", 1},
    {"FUNCTION FLUSH BOGUS", 1},
    {"MEMORY USAGE K SAMPLES x", 1},
    {"MEMORY BOGUS", 1},
    {"SLOWLOG RESET", 1},
    {"SLOWLOG GET x", 1},
    {"NOSUCHCOMMAND K V", 1},
    {"GET", 1},
    {"GET K K", 1},
    {"EXPIRE K", 1},
    {"TTL", 1, Sameness::kBytes},
};

constexpr std::uint64_t kFlushRarely = 30;

std::int64_t Now() {
  const auto now = std::chrono::system_clock::now();  // real world: EXPIREAT speaks of it
  return std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
}

}  // namespace

std::string RandomCommands::Key() {
  if (OneIn(60)) return "";
  if (OneIn(60)) return std::string("\xff\x03", 2) + "odd";
  if (OneIn(60)) return std::string("a b\r\n\0c", 7);
  if (OneIn(100)) return std::string(300, 'k');
  static constexpr const char* kStems[] = {"k", "key:", "user:[x]", "*star"};
  return kStems[Below(8) < 5 ? 0 : Below(4)] + std::to_string(Below(40));
}

std::string RandomCommands::Text() {
  if (options_.one_large_in > 0 && OneIn(options_.one_large_in)) {
    static constexpr std::size_t kSizes[] = {1000, 5000, 20'000, 33'000, 60'000, 150'000, 300'000};
    std::string value = std::to_string(random_()) + ":";
    // A word of it tells whose it is, wherever it is cut.
    const std::string word = value;
    value.reserve(kSizes[std::size(kSizes) - 1]);
    const std::size_t pick = kSizes[Below(std::size(kSizes))];
    const std::size_t size = pick > options_.large_max || OneIn(8) ? options_.large_max : pick;
    while (value.size() < size) value += word;
    value.resize(size);
    return value;
  }
  switch (Below(12)) {
    case 0:
      return "";
    case 1:
    case 2:
      return std::to_string(static_cast<std::int64_t>(Below(2'000'000)) - 1'000'000);
    case 3:
      return std::to_string(static_cast<std::int64_t>(random_()));
    case 4: {
      std::string bytes(Below(200), '\0');
      for (char& c : bytes) c = static_cast<char>(Below(256));
      return bytes;
    }
    case 5:
      return std::string(Below(100), static_cast<char>('a' + Below(26)));
    case 6:
      return OneIn(20) ? std::string(30'000 + Below(40'000), static_cast<char>('A' + Below(26)))
                       : "3.14";
    case 7:
      return OneIn(2) ? "007" : "-0";
    default:
      return "value" + std::to_string(Below(1000));
  }
}

std::string RandomCommands::Number() {
  static constexpr const char* kOdd[] = {
      "x",  "",   "1.5", "99999999999999999999", " 1",
      "+1", "01", "-0",  "9223372036854775807",  "-9223372036854775808"};
  if (OneIn(12)) return kOdd[Below(std::size(kOdd))];
  return std::to_string(static_cast<std::int64_t>(Below(30)) - 10);
}

std::string RandomCommands::Pattern() {
  static constexpr const char* kPatterns[] = {
      "*",   "k*", "k?",      "k[0-3]*", "k[^0-3]", "*1*", "key:*", "\\*st*", "user:\\[x\\]*", "[",
      "k[1", "",   "*[a-z]?", "k[3-1]",  "**1**",   "?",   "k\\",   "[^]",    "k[\\]-1]"};
  return kPatterns[Below(std::size(kPatterns))];
}

// Most of the time one of four, so that each has many keys.
std::string RandomCommands::Database() {
  if (options_.database) {
    return std::to_string(*options_.database + static_cast<int>(Below(2)));
  }
  return std::to_string(OneIn(10) ? Below(16) : Below(4));
}

bool RandomCommands::IsForAll(std::string_view form) const {
  if (!options_.database) return false;
  return form == "FLUSHALL" || form == "RESET" || form == "SELECT N" || form == "SELECT 0";
}

// What is not far in the future is in the past: nothing runs out on the way.
std::string RandomCommands::Seconds() {
  if (OneIn(15)) {
    const std::string number = Number();
    const bool is_soon = number.size() <= 3 && std::atoi(number.c_str()) > 0;
    return is_soon ? "0" : number;
  }
  return std::to_string(1000 + Below(100'000));
}
std::string RandomCommands::Millis() {
  static constexpr const char* kOdd[] = {"0", "-1", "x", "9223372036854775807", "1.5"};
  if (OneIn(15)) return kOdd[Below(std::size(kOdd))];
  return std::to_string(1'000'000 + Below(100'000'000));
}
std::string RandomCommands::UnixSeconds() {
  static constexpr const char* kOdd[] = {"0", "-1", "x", "9223372036854775807"};
  if (OneIn(15)) return kOdd[Below(std::size(kOdd))];
  return std::to_string(Now() + 1000 + static_cast<std::int64_t>(Below(100'000)));
}
std::string RandomCommands::UnixMillis() {
  static constexpr const char* kOdd[] = {"0", "-1", "x"};
  if (OneIn(15)) return kOdd[Below(std::size(kOdd))];
  return std::to_string((Now() + 1000 + static_cast<std::int64_t>(Below(100'000))) * 1000 +
                        static_cast<std::int64_t>(Below(1000)));
}

std::string RandomCommands::AnyCase(std::string word) {
  if (!OneIn(4)) return word;
  for (char& c : word) {
    if (OneIn(2)) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return word;
}

std::vector<std::string> RandomCommands::Fill(std::string_view form) {
  std::istringstream words{std::string(form)};
  std::vector<std::string> out;
  std::string word;
  while (words >> word) {
    if (word.size() > 1) {
      out.push_back(AnyCase(word));
      continue;
    }
    switch (word[0]) {
      case 'K':
        out.push_back(Key());
        break;
      case 'A':
        out.push_back("at:" + std::to_string(Below(12)));
        break;
      case 'V':
        out.push_back(Text());
        break;
      case 'N':
        out.push_back(Number());
        break;
      case 'D':
        out.push_back(Database());
        break;
      case 'P':
        out.push_back(Pattern());
        break;
      case 's':
        out.push_back(Seconds());
        break;
      case 'S':
        out.push_back(std::to_string(1000 + Below(5) * 1000));
        break;
      case 'm':
        out.push_back(Millis());
        break;
      case 'U':
        out.push_back(UnixSeconds());
        break;
      case 'W':
        out.push_back(UnixMillis());
        break;
      default:
        out.push_back(word);
    }
  }
  return out;
}

RandomCommand RandomCommands::Next() {
  static const int total = [] {
    int sum = 0;
    for (const Form& form : kForms) sum += form.weight;
    return sum;
  }();
  for (;;) {
    // A transaction ends soon.
    if (in_multi_ && OneIn(6)) {
      in_multi_ = false;
      return {{OneIn(5) ? "DISCARD" : "EXEC"}, Sameness::kBytes};
    }
    auto pick = static_cast<int>(Below(static_cast<std::uint64_t>(total)));
    const Form* form = kForms;
    while (pick >= form->weight) pick -= (form++)->weight;
    if ((in_multi_ && !form->in_multi) || IsForAll(form->text)) continue;
    // Values gather until memory is far too small for them.
    const bool empties = form->text.starts_with("FLUSH") && form->text != "FLUSHDB BOGUS";
    if (empties && options_.one_large_in > 0 && !OneIn(kFlushRarely)) continue;
    RandomCommand command{Fill(form->text), form->sameness, form->sets_deadline()};
    const std::string_view name = form->text;
    if (name == "MULTI") in_multi_ = true;
    if (name == "EXEC" || name == "DISCARD") in_multi_ = false;
    return command;
  }
}

}  // namespace spillway::resp
