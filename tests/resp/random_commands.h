// Random commands for both servers, the same for the same seed.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::resp {

// How a reply may differ, and still be the same.
enum class Sameness : std::uint8_t {
  kBytes,     // Not at all.
  kAnyOrder,  // Elements in any order.
  kSeconds,   // A number off by one.
  kMillis,    // A number off by what the way took.
  kKind,      // Only the kind of reply counts (RANDOMKEY, CLIENT ID).
  kHello      // But for the connection's number.
};

struct RandomCommand {
  std::vector<std::string> words;
  Sameness sameness = Sameness::kBytes;
};

class RandomCommands {
 public:
  explicit RandomCommands(std::uint64_t seed) : random_(seed) {}
  RandomCommand Next();

 private:
  std::uint64_t Below(std::uint64_t n) { return random_() % n; }
  bool OneIn(std::uint64_t n) { return Below(n) == 0; }
  std::string Key();
  std::string Text();
  std::string Number();
  std::string Pattern();
  std::string Seconds();
  std::string Millis();
  std::string UnixSeconds();
  std::string UnixMillis();
  std::string AnyCase(std::string word);
  // K: key, V: value, N: number, P: pattern, s S m M: times; others are words.
  std::vector<std::string> Fill(std::string_view form);

  std::mt19937_64 random_;
  bool in_multi_ = false;
};

}  // namespace spillway::resp
