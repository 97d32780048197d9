// SPDX-License-Identifier: Apache-2.0
#include "resp/diff_pair.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "resp/reply_reader.h"

namespace spillway::resp {

namespace {

using SteadyClock = std::chrono::steady_clock;

// Both count in whole milliseconds, of the clocks of two processes.
constexpr long kRoundedMs = 3;

std::vector<std::string> SortedElements(std::string_view reply) {
  std::vector<std::string> elements;
  // Headers of the arrays count as elements, too: how many there are must agree.
  while (!reply.empty()) {
    std::size_t bytes = reply[0] == '*' ? reply.find("\r\n") + 2 : ReplyBytes(reply);
    if (bytes == 0) bytes = reply.size();
    elements.emplace_back(reply.substr(0, bytes));
    reply.remove_prefix(bytes);
  }
  std::ranges::sort(elements);
  return elements;
}

// How far apart two replies are that are numbers; empty: they are not, or one says that
// there is none.
std::optional<long> Apart(std::string_view a, std::string_view b) {
  if (a.empty() || b.empty() || a[0] != ':' || b[0] != ':') return {};
  const long x = std::strtol(a.data() + 1, nullptr, 10);
  const long y = std::strtol(b.data() + 1, nullptr, 10);
  if (x < 0 || y < 0) return {};
  return std::labs(x - y);
}

std::string WithoutId(std::string_view from) {
  std::string reply(from);
  const std::size_t at = reply.find("$2\r\nid\r\n:");
  if (at == std::string::npos) return reply;
  const std::size_t end = reply.find("\r\n", at + 9);
  return reply.erase(at, end - at);
}

bool Is(const RandomCommand& command, std::string_view name) {
  return command.words.size() == 1 &&
         std::ranges::equal(command.words[0], name, [](char a, char b) {
           return std::toupper(static_cast<unsigned char>(a)) == b;
         });
}

}  // namespace

std::string Shown(std::string_view bytes) {
  std::string out;
  for (const char c : bytes.substr(0, 300)) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '\r') {
      out += "\\r";
    } else if (c == '\n') {
      out += "\\n";
    } else if (u < 32 || u > 126) {
      char hex[8];
      std::snprintf(hex, sizeof hex, "\\x%02x", u);
      out += hex;
    } else {
      out += c;
    }
  }
  return out;
}

void DeadlineSpans::Note(const std::vector<std::string>& words, Duration took) {
  for (const std::string& word : words) {
    Duration& longest = longest_[word];
    longest = std::max(longest, took);
  }
}

long DeadlineSpans::Tolerance(const std::vector<std::string>& words, Duration took) {
  for (const std::string& word : words) {
    const auto found = longest_.find(word);
    if (found == longest_.end()) continue;
    took += found->second;
    break;
  }
  const long ms = std::chrono::duration_cast<std::chrono::milliseconds>(took).count() + kRoundedMs;
  most_tolerated = std::max(most_tolerated, ms);
  return ms;
}

Pair::Pair(const std::string& theirs, const std::string& ours, std::uint64_t seed,
           const RandomCommands::Options& options, DeadlineSpans* spans)
    : random_(seed, options), redis_(theirs), spillway_(ours), spans_(spans) {
  if (options.database) {
    batch_.push_back({.words = {"SELECT", std::to_string(*options.database)}});
  }
}

bool Pair::Send(std::size_t count) {
  std::string bytes;
  while (batch_.size() < count) batch_.push_back(random_.Next());
  for (const RandomCommand& command : batch_) bytes += Request(command.words);
  sent_ = SteadyClock::now();  // real world: deadlines differ by what the way took
  return redis_.SendReading(bytes) && spillway_.SendReading(bytes);
}

std::optional<int> Pair::Compare(int* shown) {
  int differ = 0;
  const std::vector<RandomCommand> batch = std::exchange(batch_, {});
  std::vector<std::pair<std::string, std::string>> replies;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    replies.emplace_back(redis_.Reply(), spillway_.Reply());
    if (replies.back().second.empty()) return std::nullopt;
  }
  const SteadyClock::duration took = SteadyClock::now() - sent_;  // real world: as above
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const RandomCommand& command = batch[i];
    const auto& [a, b] = replies[i];
    const bool same = Is(command, "EXEC") ? SameElements(a, b, took) : Same(command, a, b, took);
    Follow(command, a, took);
    if (same) continue;
    ++differ;
    if (--*shown < 0) continue;
    std::string words;
    for (const std::string& word : command.words) words += "'" + Shown(word) + "' ";
    std::printf("%s\n  redis     %s\n  spillwayd %s\n", words.c_str(), Shown(a).c_str(),
                Shown(b).c_str());
  }
  return differ;
}

bool Pair::Same(const RandomCommand& command, std::string_view a, std::string_view b,
                SteadyClock::duration took) {
  if (a == b) return true;
  if (a.empty() || b.empty() || a[0] == '-' || b[0] == '-') return false;
  switch (command.sameness) {
    case Sameness::kBytes:
      return false;
    case Sameness::kAnyOrder:
      return SortedElements(a) == SortedElements(b);
    case Sameness::kSeconds:
    case Sameness::kMillis: {
      const std::optional<long> apart = Apart(a, b);
      if (!apart) return false;
      const bool ms = command.sameness == Sameness::kMillis;
      const long most = spans_->Tolerance(command.words, took);
      if (ms) spans_->most_met = std::max(spans_->most_met, *apart);
      return *apart <= (ms ? most : most / 1000 + 1);  // Seconds are rounded.
    }
    case Sameness::kKind:
      return a[0] == b[0];
    case Sameness::kHello:
      return WithoutId(a) == WithoutId(b);
  }
  return false;
}

// Each reply of a transaction is held against the other as if it stood alone.
bool Pair::SameElements(std::string_view a, std::string_view b, SteadyClock::duration took) {
  if (a == b) return true;
  if (a.empty() || b.empty() || a[0] != '*' || b[0] != '*') return false;
  const auto cut = [](std::string_view* from) {
    const std::size_t bytes = ReplyBytes(*from);
    const std::string_view one = from->substr(0, bytes);
    from->remove_prefix(bytes);
    return one;
  };
  const std::size_t head = a.find("\r\n") + 2;
  if (a.substr(0, head) != b.substr(0, head)) return false;
  a.remove_prefix(head);
  b.remove_prefix(head);
  return std::ranges::all_of(
      queued_, [&](const RandomCommand& command) { return Same(command, cut(&a), cut(&b), took); });
}

void Pair::Follow(const RandomCommand& command, std::string_view redis,
                  SteadyClock::duration took) {
  if (redis == "+QUEUED\r\n") return queued_.push_back(command);
  if (command.sets_deadline) spans_->Note(command.words, took);
  if (Is(command, "EXEC")) {
    for (const RandomCommand& each : queued_) {
      if (each.sets_deadline) spans_->Note(each.words, took);
    }
  }
  if (Is(command, "EXEC") || Is(command, "DISCARD") || Is(command, "RESET")) queued_.clear();
}

}  // namespace spillway::resp
