// resp_diff: sends the same random commands to Redis 7 and to spillwayd and
// compares the replies byte for byte. What may differ, and why, is listed in
// docs/reference/resp.md; everything else is a bug.
//
//   resp_diff --spillwayd PATH [--commands 200000] [--seed N] [--redis redis-server]
//
// Exit status 0: no difference; 1: differences; 77: there is no Redis here.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "resp/daemon.h"
#include "resp/random_commands.h"

namespace spillway::resp {
namespace {

constexpr std::size_t kBatch = 200;
constexpr int kDifferencesShown = 20;

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

bool NumbersNear(std::string_view a, std::string_view b, long most) {
  if (a.empty() || b.empty() || a[0] != ':' || b[0] != ':') return a == b;
  const long x = std::strtol(a.data() + 1, nullptr, 10);
  const long y = std::strtol(b.data() + 1, nullptr, 10);
  if (x < 0 || y < 0) return x == y;
  return std::labs(x - y) <= most;
}

std::string WithoutId(std::string reply) {
  const std::size_t at = reply.find("$2\r\nid\r\n:");
  if (at == std::string::npos) return reply;
  const std::size_t end = reply.find("\r\n", at + 9);
  return reply.erase(at, end - at);
}

bool Same(const std::string& a, const std::string& b, Sameness sameness) {
  if (a == b) return true;
  if (a.empty() || b.empty() || a[0] == '-' || b[0] == '-') return false;
  switch (sameness) {
    case Sameness::kBytes:
      return false;
    case Sameness::kAnyOrder:
      return SortedElements(a) == SortedElements(b);
    case Sameness::kSeconds:
      return NumbersNear(a, b, 1);
    case Sameness::kMillis:
      return NumbersNear(a, b, 2000);
    case Sameness::kKind:
      return a[0] == b[0];
    case Sameness::kHello:
      return WithoutId(a) == WithoutId(b);
  }
  return false;
}

// Frames that make no sense, one connection each: replies and end must agree.
const char* const kFrames[] = {
    "*1\r\n$4\r\nPING\r\n*x\r\n",
    "*-1\r\n*1\r\n$4\r\nPING\r\n",
    "*0\r\n*1\r\n$4\r\nPING\r\n",
    "\r\n\r\nPING\r\n",
    "*1\r\n$-1\r\n",
    "*1\r\n$x\r\n",
    "*2\r\nfoo\r\n",
    "*1\r\n:3\r\n",
    "*1\r\n$999999999999\r\n",
    "*99999999999\r\n",
    "*2147483648\r\n",
    "PING\r\nECHO \"a\\x41\\n b\"\r\nECHO 'it\\'s'\r\n",
    "ECHO \"unbalanced\r\n",
    "ECHO \"a\"b\r\n",
    "SET inline value\r\nGET inline\r\nDEL inline\r\n",
    "GET\r\n",
    "QUIT\r\nPING\r\n",
    "*1\r\n$4\r\nQUIT\r\n*1\r\n$4\r\nPING\r\n",
    "POST / x\r\nHost: x\r\n\r\n",
    "GET / x\r\nHost: x\r\n\r\n",
    "PING\nPING\n",
    "*1\r\n$4\r\nPINGXX*1\r\n$4\r\nPING\r\n",
    "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n",
    "* 1\r\n",
    "*+1\r\n",
    "*01\r\n",
    "*1\r\n$04\r\nPING\r\n",
    "  PING  \r\n\tPING\r\n",
};

int CompareFrames(const std::string& theirs, const std::string& ours) {
  int differ = 0;
  std::vector<std::string> frames(std::begin(kFrames), std::end(kFrames));
  frames.push_back(std::string(70'000, 'a'));
  frames.push_back("*" + std::string(70'000, '1'));
  frames.push_back("*1\r\n$" + std::string(70'000, '1'));
  for (const std::string& frame : frames) {
    std::string replies[2];
    for (int i = 0; i < 2; ++i) {
      Client client(i == 0 ? theirs : ours);
      client.Send(frame);
      // Where the connection is not closed for the frame, this ends it.
      shutdown(client.fd(), SHUT_WR);
      replies[i] = client.Rest();
    }
    if (replies[0] == replies[1]) continue;
    ++differ;
    std::printf("frame %s\n  redis     %s\n  spillwayd %s\n", Shown(frame).c_str(),
                Shown(replies[0]).c_str(), Shown(replies[1]).c_str());
  }
  return differ;
}

int CompareCommands(const std::string& theirs, const std::string& ours, std::uint64_t commands,
                    std::uint64_t seed) {
  RandomCommands random(seed);
  Client redis(theirs);
  Client spillway(ours);
  int differ = 0;
  for (std::uint64_t done = 0; done < commands;) {
    std::vector<RandomCommand> batch;
    std::string bytes;
    for (std::size_t i = 0; i < kBatch && done + i < commands; ++i) {
      batch.push_back(random.Next());
      bytes += Request(batch.back().words);
    }
    done += batch.size();
    if (!redis.Send(bytes) || !spillway.Send(bytes)) {
      std::printf("a connection ended after %llu commands\n",
                  static_cast<unsigned long long>(done));
      return differ + 1;
    }
    for (const RandomCommand& command : batch) {
      const std::string a = redis.Reply();
      const std::string b = spillway.Reply();
      if (b.empty()) {
        std::printf("spillwayd ended the connection, or did not answer\n");
        return differ + 1;
      }
      if (Same(a, b, command.sameness)) continue;
      if (++differ > kDifferencesShown) return differ;
      std::string words;
      for (const std::string& word : command.words) words += "'" + Shown(word) + "' ";
      std::printf("%s\n  redis     %s\n  spillwayd %s\n", words.c_str(), Shown(a).c_str(),
                  Shown(b).c_str());
    }
  }
  return differ;
}

int Main(int argc, char** argv) {
  std::string spillwayd;
  std::string redis = "redis-server";
  std::uint64_t commands = 200'000;
  std::uint64_t seed = std::random_device{}();
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view flag = argv[i];
    if (flag == "--spillwayd") spillwayd = argv[i + 1];
    if (flag == "--redis") redis = argv[i + 1];
    if (flag == "--commands") commands = std::strtoull(argv[i + 1], nullptr, 10);
    if (flag == "--seed") seed = std::strtoull(argv[i + 1], nullptr, 10);
  }
  if (std::system((redis + " --version > /dev/null 2>&1").c_str()) != 0) {
    std::printf("skipped: there is no %s here\n", redis.c_str());
    return 77;
  }
  char folder[] = "/tmp/resp-diff-XXXXXX";
  if (mkdtemp(folder) == nullptr) return 2;
  const std::string dir = folder;
  int differ = 0;
  {
    const std::string theirs = dir + "/redis.sock";
    const std::string ours = dir + "/spillway.sock";
    Daemon one({redis, "--port", "0", "--unixsocket", theirs, "--save", "", "--dir", dir}, theirs);
    // Pressure that is unknown for a while, as on a busy machine, would evict.
    const std::string config = dir + "/spillway.toml";
    std::ofstream(config) << "pressure_source = \"fixed:0.1\"\nsample_period = \"60s\"\n";
    Daemon two({spillwayd, "--config", config, "--port", "0", "--http-port", "0", "--socket", ours},
               ours);
    if (!Client(theirs).connected() || !Client(ours).connected()) {
      std::printf("a server did not start\n");
      return 2;
    }
    const auto began = std::chrono::steady_clock::now();  // real world: how long it took
    differ = CompareFrames(theirs, ours);
    differ += CompareCommands(theirs, ours, commands, seed);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    std::printf("%llu commands, seed %llu: %d differences, %.1f s\n",
                static_cast<unsigned long long>(commands), static_cast<unsigned long long>(seed),
                differ, took.count());
  }
  std::filesystem::remove_all(dir);
  return differ == 0 ? 0 : 1;
}

}  // namespace
}  // namespace spillway::resp

int main(int argc, char** argv) { return spillway::resp::Main(argc, argv); }
