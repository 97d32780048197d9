// SPDX-License-Identifier: Apache-2.0
// What a person who runs spillwayd is told: its log, and the commands that query it.
#include <netinet/in.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "resp/daemon.h"
#include "run_program.h"

namespace spillway::resp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using namespace std::chrono_literals;

// A port that is free at this moment.
int FreePort() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::runtime_error("no port");
  }
  ::close(fd);
  return ntohs(address.sin_port);
}

class OperatorTest : public ::testing::Test {
 protected:
  OperatorTest() {
    char folder[] = "/tmp/spillway-operator-XXXXXX";
    dir_ = mkdtemp(folder);
    ::mkdir((dir_ + "/run").c_str(), 0700);
    Put("SPILLWAY_RUN_DIR", dir_ + "/run");
    for (const char* gpu :
         {"SPILLWAY_NVML_LIBRARY", "SPILLWAY_CUDA_LIBRARY", "SPILLWAY_HIP_LIBRARY"}) {
      Put(gpu, "");
    }
    for (const char* name : {"SPILLWAY_URL", "SPILLWAY_PASSWORD"}) ::unsetenv(name);
  }
  ~OperatorTest() override {
    daemon_.reset();
    for (const std::string& name : put_) ::unsetenv(name.c_str());
    std::filesystem::remove_all(dir_);
  }
  void Put(const std::string& name, const std::string& value) {
    ::setenv(name.c_str(), value.c_str(), 1);
    put_.push_back(name);
  }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(dir_ + "/" + name + ".new") << text;
    std::filesystem::rename(dir_ + "/" + name + ".new", dir_ + "/" + name);
  }
  std::string socket() const { return dir_ + "/s.sock"; }
  std::string config() const { return dir_ + "/d.toml"; }
  std::string Log() const { return FileText(dir_ + "/log"); }

  // With ports of its own; its log goes to a file.
  void Start(const std::string& server = "", const std::string& cache = "") {
    port_ = FreePort();
    http_port_ = FreePort();
    Write("d.toml", "capacity = \"64MiB\"\n" + cache + "[server]\n" + server);
    Run();
  }
  void Run() {
    const std::string command = std::string("exec ") + SPILLWAYD_BIN + " --config " + config() +
                                " --socket " + socket() + " --port " + std::to_string(port_) +
                                " --http-port " + std::to_string(http_port_) + " 2>" + dir_ +
                                "/log";
    daemon_ =
        std::make_unique<Daemon>(std::vector<std::string>{"/bin/sh", "-c", command}, socket());
    ASSERT_TRUE(Client(socket()).connected()) << Log();
    ASSERT_TRUE(Says("serves Redis on")) << "signals are heard from here on";
  }
  std::string Do(const std::vector<std::string>& words, const std::string& password = "") {
    Client client(socket());
    if (!password.empty()) {
      client.Send(Request({"AUTH", password}));
      client.Reply();
    }
    client.Send(Request(words));
    return client.Reply();
  }
  // Waits for a line of the log; 10 s at most.
  bool Says(const std::string& words) {
    for (int i = 0; i < 1000; ++i) {
      if (Log().find(words) != std::string::npos) return true;
      std::this_thread::sleep_for(10ms);  // real world: another process writes its log
    }
    return false;
  }

  static ProgramRun Spillway(const std::string& words) {
    return RunProgram(SPILLWAY_BIN " " + words);
  }
  // All names of the running daemon.
  std::vector<std::string> Urls(const std::string& password = "") const {
    const std::string who = password.empty() ? "" : ":" + password + "@";
    return {"redis://" + who + "127.0.0.1:" + std::to_string(port_), "unix://" + who + socket(),
            "http://" + who + "127.0.0.1:" + std::to_string(http_port_),
            "redis://" + who + "localhost:" + std::to_string(port_) + "/0"};
  }

  std::string dir_;
  std::vector<std::string> put_;
  int port_ = 0;
  int http_port_ = 0;
  std::unique_ptr<Daemon> daemon_;
};

// --- the log ---

TEST_F(OperatorTest, TheStartLogSaysWhatRunsByWhichSettings) {
  Start("password = \"the-secret\"\n",
        "policy = \"lru\"\nhost_capacity = \"96MiB\"\ndisk_dir = \"" + dir_ +
            "/disk\"\ndisk_capacity = \"128MiB\"\n");
  ASSERT_TRUE(Says("recovered"));
  EXPECT_THAT(Log(), AllOf(HasSubstr("spillwayd 0."), HasSubstr("config file " + config()),
                           HasSubstr("a password is set"), HasSubstr("device cpu"),
                           HasSubstr("device tier 64 MiB"), HasSubstr("host tier 96 MiB"),
                           HasSubstr("disk tier 128 MiB in " + dir_ + "/disk"),
                           HasSubstr("policy lru"), Not(HasSubstr("the-secret"))));
}

TEST_F(OperatorTest, TheStartLogSaysWhatWasRecovered) {
  Start("", "disk_dir = \"" + dir_ + "/disk\"\ndisk_capacity = \"128MiB\"\n");
  ASSERT_TRUE(Says("no entry was recovered from " + dir_ + "/disk"));
  for (int i = 0; i < 7; ++i) {
    ASSERT_EQ(Do({"SET", "k" + std::to_string(i), std::string(100'000, 'x')}), "+OK\r\n");
  }
  ASSERT_EQ(daemon_->Stop(), 0);
  Run();
  EXPECT_TRUE(Says("7 entries were recovered from " + dir_ + "/disk")) << Log();
}

TEST_F(OperatorTest, SighupNamesWhatItChangedAndWhatItCouldNot) {
  Start("idle_max = \"100s\"\n");
  Write("d.toml",
        "capacity = \"80MiB\"\npolicy = \"lru\"\n[server]\nidle_max = \"200s\"\nhttp_hosts = "
        "\"a.example\"\n");
  kill(daemon_->pid(), SIGHUP);
  ASSERT_TRUE(Says("need a restart"));
  EXPECT_THAT(Log(), AllOf(HasSubstr(config() + " was read again; changed: server.idle_max\n"),
                           HasSubstr("need a restart: server.http_hosts, capacity, policy\n")));
  EXPECT_THAT(Do({"CONFIG", "GET", "timeout"}), HasSubstr("200"));
}

TEST_F(OperatorTest, SighupThatChangesNothingSaysSo) {
  Start("idle_max = \"100s\"\n");
  kill(daemon_->pid(), SIGHUP);
  ASSERT_TRUE(Says("was read again; changed: nothing"));
  EXPECT_THAT(Log(), Not(HasSubstr("restart")));
}

TEST_F(OperatorTest, SighupDoesNotTakeThePasswordOfADoorThatStaysWide) {
  Start("bind = \"0.0.0.0\"\npassword = \"secret\"\n");
  Write("d.toml", "capacity = \"64MiB\"\n[server]\nidle_max = \"200s\"\n");
  kill(daemon_->pid(), SIGHUP);
  ASSERT_TRUE(Says("SIGHUP: nothing was changed: server.bind: 0.0.0.0"));
  EXPECT_THAT(Do({"PING"}), StartsWith("-NOAUTH"));
}

TEST_F(OperatorTest, APasswordTakenAwayIsRefusedOnAWideBindAndLogged) {
  Start("bind = \"0.0.0.0\"\npassword = \"secret\"\nopen_to_all = true\n");
  EXPECT_THAT(Do({"CONFIG", "SET", "requirepass", ""}, "secret"),
              AllOf(StartsWith("-ERR"), HasSubstr("0.0.0.0")));
  EXPECT_TRUE(Says("the password was not removed"));
  EXPECT_THAT(Do({"PING"}), StartsWith("-NOAUTH"));
}

// --- what is refused ---

TEST_F(OperatorTest, APortThatIsNoneIsShownAsItWasGiven) {
  for (const std::string flag : {"--port", "--http-port"}) {
    for (const std::string port : {"-1", "65536", "18446744073709551615", "x"}) {
      const ProgramRun run = RunProgram(SPILLWAYD_BIN " " + flag + " " + port);
      EXPECT_EQ(run.status, 2);
      EXPECT_EQ(run.err,
                "spillwayd: " + flag + ": '" + port + "' is not a port; it must be 0 to 65535\n");
    }
  }
  for (const std::string command : {"stats", "explain k"}) {
    const ProgramRun run = Spillway(command + " --port -1");
    EXPECT_EQ(run.status, 2);
    EXPECT_THAT(run.err, HasSubstr("--port: '-1' is not a port; it must be 1 to 65535"));
  }
  const ProgramRun run = Spillway("explain k --db -1");
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("--db: -1 is no database; they are 0 to 15"));
}

TEST_F(OperatorTest, ACapacityThatCanNotBeIsRefusedWithBothFigures) {
  const auto refusal = [&](const std::string& text) {
    Write("bad.toml", text);
    const ProgramRun run = RunProgram(SPILLWAYD_BIN " --for 1s --port 0 --http-port 0 --socket " +
                                      socket() + " --config " + dir_ + "/bad.toml");
    EXPECT_EQ(run.status, 2) << text;
    return run.err;
  };
  EXPECT_THAT(refusal("capacity = \"900TiB\"\n"),
              AllOf(HasSubstr("capacity is 900 TiB, and "), HasSubstr(" in all")));
  EXPECT_THAT(refusal("capacity = 100\n"),
              AllOf(HasSubstr("capacity is 100 B"), HasSubstr("chunks of 4 KiB")));
  EXPECT_THAT(refusal("host_capacity = \"900TiB\"\n"), HasSubstr("host_capacity is 900 TiB, and "));
  EXPECT_THAT(refusal("host_capacity = \"1kB\"\n"), HasSubstr("host_capacity is 1000 B"));
  EXPECT_THAT(refusal("disk_capacity = \"900000TiB\"\ndisk_dir = \"" + dir_ + "/disk\"\n"),
              AllOf(HasSubstr("disk_capacity is"), HasSubstr(" in all")));
}

// --- which daemon, which password ---

TEST_F(OperatorTest, EveryCommandNamesTheDaemonByUrlAndByEnvironment) {
  Start();
  ASSERT_EQ(Do({"SET", "here", "value"}), "+OK\r\n");
  for (const std::string& url : Urls()) {
    for (const std::string& command :
         {std::string("stats"), std::string("stats --json"), std::string("explain here"),
          std::string("top --once"), std::string("top --json")}) {
      const ProgramRun named = Spillway(command + " --url " + url);
      EXPECT_EQ(named.status, 0) << command << " " << url << "\n" << named.err;
      EXPECT_EQ(named.err, "") << command << " " << url;
      Put("SPILLWAY_URL", url);
      const ProgramRun by_environment = Spillway(command);
      EXPECT_EQ(by_environment.status, 0) << command << " " << url << "\n" << by_environment.err;
      // An explicit option takes precedence.
      const ProgramRun other = Spillway(command + " --url http://127.0.0.1:1");
      EXPECT_EQ(other.status, 1) << command;
      EXPECT_THAT(other.err, HasSubstr("127.0.0.1:1"));
      ::unsetenv("SPILLWAY_URL");
    }
    EXPECT_THAT(Spillway("explain here --url " + url).out,
                HasSubstr("'here' is in the device tier"));
    EXPECT_THAT(Spillway("stats --url " + url).out, HasSubstr("1 entries"));
    EXPECT_THAT(Spillway("top --once --url " + url).out, HasSubstr("1 entries"));
  }
  for (const std::string& words : {"--socket " + socket(), "--port " + std::to_string(port_),
                                   "--host localhost --port " + std::to_string(port_)}) {
    EXPECT_EQ(Spillway("stats " + words).status, 0) << words;  // The older options still work.
  }
  EXPECT_EQ(Spillway("stats --url redis://x --socket " + socket()).status, 2);
}

TEST_F(OperatorTest, EveryCommandTakesThePasswordTheSameWay) {
  const std::string password = "p@ss:w/o %rd";
  const std::string encoded = "p%40ss%3aw%2Fo%20%25rd";
  Start("password = \"" + password + "\"\n");
  ASSERT_EQ(Do({"SET", "here", "value"}, password), "+OK\r\n");
  Write("password", password + "\n");
  Write("wrong", "wrong\n");
  for (const std::string& command : {std::string("stats"), std::string("explain here"),
                                     std::string("top --once"), std::string("top --json")}) {
    for (std::size_t i = 0; i < Urls().size(); ++i) {
      const std::string url = " --url " + Urls()[i];
      const auto expect_in = [&](const ProgramRun& run, const char* how) {
        EXPECT_EQ(run.status, 0) << command << url << " " << how << "\n" << run.err;
      };
      const auto expect_out = [&](const ProgramRun& run, const std::string& words) {
        EXPECT_EQ(run.status, 1) << command << url;
        EXPECT_THAT(run.err, AllOf(HasSubstr("asks for a password"), HasSubstr(words),
                                   Not(HasSubstr("p@ss"))));
      };
      expect_out(Spillway(command + url), "$SPILLWAY_PASSWORD");
      expect_in(Spillway(command + url + " --password-file " + dir_ + "/password"), "file");
      expect_out(Spillway(command + url + " --password-file " + dir_ + "/wrong"),
                 "--password-file");
      expect_in(Spillway(command + " --url " + Urls(encoded)[i]), "url");
      Put("SPILLWAY_PASSWORD", password);
      expect_in(Spillway(command + url), "environment");
      // The file before the URL, the URL before the environment.
      expect_out(Spillway(command + " --url " + Urls("wrong")[i]), "not that of --url");
      expect_in(Spillway(command + " --url " + Urls("wrong")[i] + " --password-file " + dir_ +
                         "/password"),
                "file and url");
      Put("SPILLWAY_PASSWORD", "wrong");
      expect_out(Spillway(command + url), "not that of $SPILLWAY_PASSWORD");
      ::unsetenv("SPILLWAY_PASSWORD");
    }
  }
}

TEST_F(OperatorTest, APasswordThatADaemonDoesNotAskForDoesNoHarm) {
  Start();
  Put("SPILLWAY_PASSWORD", "of another daemon");
  for (const std::string& url : Urls()) {
    for (const std::string command : {"stats", "top --once"}) {
      const ProgramRun run = Spillway(command + (" --url " + url));
      EXPECT_EQ(run.status, 0) << command << " " << url << "\n" << run.err;
    }
  }
}

TEST_F(OperatorTest, TopSaysThatAPasswordIsNeededInAllItsWays) {
  Start("password = \"secret\"\n");
  for (const std::string how : {"--once", "--json", "--for 20s"}) {
    const ProgramRun run = Spillway("top " + how + " --url " + Urls()[2]);
    EXPECT_EQ(run.status, 1) << how;
    EXPECT_THAT(run.err, AllOf(HasSubstr("spillway top: the spillwayd at 127.0.0.1:"),
                               HasSubstr("asks for a password")))
        << how;
  }
}

TEST_F(OperatorTest, TopSaysWhereADaemonHasNoHttp) {
  http_port_ = 0;
  port_ = FreePort();
  Write("d.toml", "capacity = \"64MiB\"\n");
  Run();
  const ProgramRun run = Spillway("top --once --url unix://" + socket());
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.err, HasSubstr("has no HTTP (server.http_port = 0)"));
}

// --- explain ---

TEST_F(OperatorTest, ExplainOfAnUnknownKeyExitsOneAndOfAKnownOneZero) {
  Start();
  ASSERT_EQ(Do({"SET", "here", "value"}), "+OK\r\n");
  ASSERT_EQ(Do({"SET", "was here", "value"}), "+OK\r\n");
  ASSERT_EQ(Do({"DEL", "was here"}), ":1\r\n");
  const std::string tricky = "x' is not here: never set";
  ASSERT_EQ(Do({"SET", tricky, "value"}), "+OK\r\n");
  {
    Client third(socket());
    third.Send(Request({"SELECT", "3"}) + Request({"SET", "third", "value"}));
    EXPECT_EQ(third.Reply() + third.Reply(), "+OK\r\n+OK\r\n");
  }
  for (const std::string& url : Urls()) {
    const auto explain = [&](const std::string& words) {
      const ProgramRun run = Spillway("explain --url " + url + " " + words);
      EXPECT_EQ(run.err, "");
      EXPECT_NE(run.out, "");
      return run.status;
    };
    EXPECT_EQ(explain("here"), 0) << url;
    EXPECT_EQ(explain("'was here'"), 0) << url << ": it is known why it left";
    EXPECT_EQ(explain("\"" + tricky + "\""), 0) << url;
    EXPECT_EQ(explain("nowhere"), 1) << url;
    EXPECT_EQ(explain("\"$(printf 'no\\001where')\""), 1) << url;
    EXPECT_EQ(explain("third"), 1) << url;
    EXPECT_EQ(explain("third --db 3"), 0) << url;
    EXPECT_EQ(explain("here --db 3"), 1) << url;
  }
  EXPECT_EQ(
      Spillway("explain third --url redis://127.0.0.1:" + std::to_string(port_) + "/3").status, 0);
}

}  // namespace
}  // namespace spillway::resp
