// SPDX-License-Identifier: Apache-2.0
// A test with a spillwayd of its own, and what it is asked.
#pragma once

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "resp/daemon.h"

namespace spillway::resp {

using namespace std::chrono_literals;

// The built one, or another that the environment names (one with sanitizers).
inline std::string Program() {
  const char* const other = std::getenv("SPILLWAYD");
  return other != nullptr ? other : SPILLWAYD_BIN;
}

class DaemonTest : public ::testing::Test {
 protected:
  DaemonTest() {
    char folder[] = "/tmp/spillwayd-test-XXXXXX";
    dir_ = mkdtemp(folder);
  }
  ~DaemonTest() override {
    daemon_.reset();
    std::filesystem::remove_all(dir_);
  }

  void Write(const std::string& name, const std::string& text) {
    // Whole or not at all: somebody reads it while we write.
    std::ofstream(dir_ + "/" + name + ".new") << text;
    std::filesystem::rename(dir_ + "/" + name + ".new", dir_ + "/" + name);
  }
  void SetPressure(double pressure) { Write("pressure", std::to_string(pressure) + "\n"); }
  std::string socket() const { return dir_ + "/s.sock"; }
  void Start(const std::string& config = "", std::vector<std::string> more = {}) {
    Write("d.toml", config);
    std::vector<std::string> words{Program(), "--config", dir_ + "/d.toml", "--socket", socket()};
    if (config.find("port") == std::string::npos) words.insert(words.end(), {"--port", "0"});
    if (config.find("http_port") == std::string::npos) {
      words.insert(words.end(), {"--http-port", "0"});
    }
    words.insert(words.end(), more.begin(), more.end());
    daemon_ = std::make_unique<Daemon>(words, socket());
    ASSERT_TRUE(Client(socket()).connected());
  }
  static std::string Do(Client& client, const std::vector<std::string>& words) {
    client.Send(Request(words));
    return client.Reply();
  }
  std::string Do(const std::vector<std::string>& words) {
    Client client(socket());
    return Do(client, words);
  }
  // Waits for what the daemon does by itself; 10 s at most.
  bool Until(const std::vector<std::string>& words, const std::string& wanted) {
    for (int i = 0; i < 500 && daemon_->alive(); ++i) {
      if (Do(words).find(wanted) != std::string::npos) return true;
      std::this_thread::sleep_for(20ms);  // real world: another process works
    }
    return false;
  }

  std::string dir_;
  std::unique_ptr<Daemon> daemon_;
};

inline std::string Value(int seed, std::size_t bytes) {
  std::string value(bytes, '\0');
  std::mt19937_64 random(static_cast<std::uint64_t>(seed));
  for (std::size_t i = 0; i + 8 <= bytes; i += 8) {
    const std::uint64_t word = random();
    std::memcpy(value.data() + i, &word, 8);
  }
  return value;
}

}  // namespace spillway::resp
