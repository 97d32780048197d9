// SPDX-License-Identifier: Apache-2.0
#include "fakes/script.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <mutex>
#include <sstream>
#include <stdexcept>

namespace fakes {

namespace {

[[noreturn]] void Stop(const std::string& line, const char* why) {
  std::fprintf(stderr, "fake script: %s: %s\n", why, line.c_str());
  std::abort();  // A mistake in a test must not look like an answer.
}

std::uint64_t Number(std::istringstream* words, const std::string& line) {
  std::string word;
  if (!(*words >> word)) Stop(line, "a number is missing");
  if (word == "max") return std::numeric_limits<std::uint64_t>::max();
  return std::strtoull(word.c_str(), nullptr, 0);
}

bool TakeFigure(const std::string& word, std::istringstream* words, const std::string& line,
                Figures* figures) {
  if (word == "total")
    figures->total = Number(words, line);
  else if (word == "free")
    figures->free = Number(words, line);
  else if (word == "used")
    figures->used = Number(words, line);
  else if (word == "reserved")
    figures->reserved = Number(words, line);
  else
    return false;
  return true;
}

Card ParseCard(std::istringstream* words, const std::string& line) {
  Card card;
  std::string word;
  *words >> word >> card.uuid;
  const std::optional<Pci> pci = ParsePci(word);
  if (!pci || card.uuid.empty()) Stop(line, "device PCI UUID expected");
  card.pci = *pci;
  while (*words >> word) {
    if (TakeFigure(word, words, line, &card.figures)) continue;
    if (word == "name")
      *words >> card.name;
    else if (word == "partition")
      card.partition = static_cast<unsigned>(Number(words, line));
    else if (word == "denied")
      card.denied = true;
    else if (word == "other")
      card.other = true;
    else
      Stop(line, "not known of a device");
  }
  return card;
}

Instance ParseInstance(std::istringstream* words, const std::string& line) {
  Instance instance;
  std::string word;
  *words >> instance.uuid;
  while (*words >> word) {
    if (!TakeFigure(word, words, line, &instance.figures)) Stop(line, "not known of an instance");
  }
  return instance;
}

void ParseLine(const std::string& line, Script* script) {
  std::istringstream words(line);
  std::string key;
  std::string function;
  if (!(words >> key)) return;
  if (key == "device") {
    script->cards.push_back(ParseCard(&words, line));
  } else if (key == "mig" || key == "hole") {
    if (script->cards.empty()) Stop(line, "no device before it");
    std::optional<Instance> instance;
    if (key == "mig") instance = ParseInstance(&words, line);
    script->cards.back().instances.push_back(std::move(instance));
  } else if (key == "fail") {
    words >> function;
    // Through 64 bits: AMD's unknown error is 0xffffffff.
    script->fail[function] = static_cast<int>(Number(&words, line));
  } else if (key == "hang") {
    words >> function >> std::ws;
    constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();
    script->hang[function] = words.eof() ? kAll : Number(&words, line);
  } else if (key == "throw") {
    words >> function;
    script->raise.insert(function);
  } else if (key == "drift") {
    script->drift = Number(&words, line);
  } else if (key == "freeze" || key == "lost" || key == "wrong_size") {
    (key == "freeze" ? script->frozen : key == "lost" ? script->lost : script->wrong_size) = true;
  } else {
    Stop(line, "not known");
  }
}

std::shared_ptr<const Script> Parse(std::string text) {
  const auto script = std::make_shared<Script>();
  std::replace(text.begin(), text.end(), ';', '\n');
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) ParseLine(line, script.get());
  return script;
}

class Play {
 public:
  Play() {
    const char* given = std::getenv("SPILLWAY_FAKE_SCRIPT");
    const std::string text = given == nullptr ? "" : given;
    if (text.starts_with("@")) file_ = text.substr(1);
    script_ = Parse(file_.empty() ? text : std::string());
  }

  void Set(const std::string& text) {
    const std::lock_guard lock(mutex_);
    Take(text);
  }

  int Enter(const std::string& function) {
    std::unique_lock lock(mutex_);
    ++calls_[function];
    changed_.notify_all();
    Refresh();
    for (std::shared_ptr<const Script> seen; seen != script_;) {
      seen = script_;
      const auto hang = seen->hang.find(function);
      if (hang == seen->hang.end() || hung_[function]++ >= hang->second) break;
      while (seen == script_) {
        // A changed file sends no signal: check it regularly.
        changed_.wait_for(lock, std::chrono::milliseconds(file_.empty() ? 1000 : 5));
        Refresh();
      }
    }
    if (script_->raise.contains(function)) throw std::runtime_error(function + " threw");
    const auto failing = script_->fail.find(function);
    return failing == script_->fail.end() ? 0 : failing->second;
  }

  std::shared_ptr<const Script> now() {
    const std::lock_guard lock(mutex_);
    return script_;
  }

  std::uint64_t Drift() {
    const std::lock_guard lock(mutex_);
    if (!script_->frozen) drifted_ += script_->drift;
    return drifted_;
  }

  int calls(const std::string& function) {
    const std::lock_guard lock(mutex_);
    return calls_[function];
  }

  void WaitFor(const std::string& function, int calls) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return calls_[function] >= calls; });
  }

  int AddUser(int change) {
    const std::lock_guard lock(mutex_);
    if (users_ == 0 && change > 0) ++generation_;
    return users_ += change;
  }

  void* HandleOf(const std::string& uuid) {
    const std::lock_guard lock(mutex_);
    const std::pair<int, std::string> wanted(generation_, uuid);
    auto at = std::find(handles_.begin(), handles_.end(), wanted);
    if (at == handles_.end()) at = handles_.insert(at, wanted);
    return reinterpret_cast<void*>(static_cast<std::size_t>(at - handles_.begin()) + 1);
  }

  std::string UuidOf(void* handle) {
    const std::lock_guard lock(mutex_);
    const auto at = reinterpret_cast<std::size_t>(handle);
    if (at == 0 || at > handles_.size() || handles_[at - 1].first != generation_) return {};
    return handles_[at - 1].second;
  }

  const char* WordsFor(int code) {
    const std::lock_guard lock(mutex_);
    return words_.try_emplace(code, "the words for " + std::to_string(code)).first->second.c_str();
  }

 private:
  void Take(const std::string& text) {
    script_ = Parse(text);
    text_ = text;
    hung_.clear();
    if (!script_->frozen) drifted_ = 0;
    changed_.notify_all();
  }

  void Refresh() {
    if (file_.empty()) return;
    std::ifstream file(file_);
    std::ostringstream text;
    text << file.rdbuf();
    if (text.str() != text_) Take(text.str());
  }

  std::string file_;  // Constant after construction; empty: none.

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::shared_ptr<const Script> script_;
  std::string text_;
  std::uint64_t drifted_ = 0;
  std::map<std::string, int> calls_;
  std::map<std::string, std::uint64_t> hung_;  // Since this script is in force.
  int users_ = 0;
  int generation_ = 0;
  std::vector<std::pair<int, std::string>> handles_;
  std::map<int, std::string> words_;
};

// Never freed: a thread may hang in it when the process exits.
Play& play() {
  static Play* const kPlay = new Play;
  return *kPlay;
}

}  // namespace

std::optional<Pci> ParsePci(const std::string& text) {
  Pci pci;
  if (std::sscanf(text.c_str(), "%x:%x:%x.%x", &pci.domain, &pci.bus, &pci.device, &pci.function) !=
      4) {
    return std::nullopt;
  }
  return pci;
}

int Enter(const char* function) { return play().Enter(function); }
std::shared_ptr<const Script> Now() { return play().now(); }

Figures Answer(const Figures& figures) {
  Figures answer = figures;
  answer.free -= std::min(answer.free, play().Drift());
  if (!answer.used) answer.used = answer.total - answer.free - answer.reserved;
  return answer;
}

int AddUser(int change) { return play().AddUser(change); }
int users() { return play().AddUser(0); }
void* HandleOf(const std::string& uuid) { return play().HandleOf(uuid); }
std::string UuidOf(void* handle) { return play().UuidOf(handle); }
const char* WordsFor(int code) { return play().WordsFor(code); }

void Put(const std::string& text, char* into, std::size_t size) {
  if (size > 0) std::snprintf(into, size, "%s", text.c_str());
}

}  // namespace fakes

FAKE_API void spillway_fake_script(const char* text) { fakes::play().Set(text); }
FAKE_API int spillway_fake_users() { return fakes::users(); }
FAKE_API int spillway_fake_calls(const char* function) { return fakes::play().calls(function); }
FAKE_API void spillway_fake_wait(const char* function, int calls) {
  fakes::play().WaitFor(function, calls);
}
