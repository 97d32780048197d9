// `spillwayd --demo` and `spillway demo` as a user starts them: the real programs,
// with and without a terminal.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "demo/client.h"
#include "demo/http_client.h"
#include "demo/metrics_page.h"
#include "demo/report.h"
#include "demo/totals.h"
#include "device/testing/fake_gpu.h"
#include "device/testing/scratch_run_dir.h"

extern char** environ;  // NOLINT: POSIX wants it declared by hand.

namespace spillway {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// A run of the program. What it writes is read as it comes.
class Program {
 public:
  enum class Out : std::uint8_t { kPipe, kTerminal };

  explicit Program(std::vector<std::string> arguments, Out out = Out::kPipe) {
    std::vector<char*> argv;
    argv.reserve(arguments.size() + 1);
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    const int theirs = out == Out::kPipe ? MakePipe() : MakeTerminal();
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, theirs, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, theirs, STDERR_FILENO);
    EXPECT_EQ(::posix_spawn(&pid_, argv.front(), &files, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&files);
    ::close(theirs);
  }
  ~Program() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    ::close(out_);
  }

  pid_t pid() const { return pid_; }
  const std::string& text() const { return text_; }
  // Nobody reads any more.
  void CloseOutput() { ::close(std::exchange(out_, -1)); }

  // Reads until `text` has come, or all has, or a minute is over.
  bool ReadUntil(const std::string& text) {
    const auto give_up = std::chrono::steady_clock::now() + seconds(60);
    while (text_.find(text) == text_.npos && std::chrono::steady_clock::now() < give_up) {
      pollfd ready{out_, POLLIN, 0};
      if (::poll(&ready, 1, 1000) <= 0) continue;
      std::array<char, 4096> buffer;
      const ssize_t n = ::read(out_, buffer.data(), buffer.size());
      if (n <= 0) break;
      text_.append(buffer.data(), static_cast<std::size_t>(n));
    }
    return text_.find(text) != text_.npos;
  }
  // The exit code, or -1 if it did not end by itself.
  int End() {
    if (out_ >= 0) ReadUntil("there is no such text");
    int status = 0;
    const auto give_up = std::chrono::steady_clock::now() + seconds(60);
    while (::waitpid(pid_, &status, WNOHANG) != pid_) {
      if (std::chrono::steady_clock::now() > give_up) return -1;  // The destructor ends it.
      ::poll(nullptr, 0, 1);
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  int MakePipe() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    out_ = ends[0];
    return ends[1];
  }
  int MakeTerminal() {
    out_ = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    EXPECT_EQ(::grantpt(out_), 0);
    EXPECT_EQ(::unlockpt(out_), 0);
    const int theirs = ::open(::ptsname(out_), O_RDWR | O_NOCTTY | O_CLOEXEC);
    const winsize size{.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
    EXPECT_EQ(::ioctl(theirs, TIOCSWINSZ, &size), 0);
    return theirs;
  }

  pid_t pid_ = -1;
  int out_ = -1;
  std::string text_;
};

class DemoTest : public ::testing::Test {
 protected:
  DemoTest() {
    // On a virtual card, also where there is a GPU.
    ::setenv("SPILLWAY_CUDA_LIBRARY", "", 1);
    ::setenv("SPILLWAY_HIP_LIBRARY", "", 1);
  }
  ~DemoTest() override {
    ::unsetenv("SPILLWAY_CUDA_LIBRARY");
    ::unsetenv("SPILLWAY_HIP_LIBRARY");
  }
  std::string Path(const std::string& name) const { return run_dir_.path() + "/" + name; }
  // Its card and its folder.
  bool NothingIsLeftOf(pid_t pid) const {
    const std::string name = "demo-" + std::to_string(pid);
    return !std::filesystem::exists(run_dir_.CardPath(name)) &&
           !std::filesystem::exists(Path(name));
  }
  testing::ScratchRunDir run_dir_;
};

// What `pattern` caught in `text`; empty: nothing.
std::string Caught(const std::string& text, const std::string& pattern) {
  std::smatch match;
  return std::regex_search(text, match, std::regex(pattern)) ? match[1].str() : std::string();
}
std::string SocketIn(const std::string& text) {
  return Caught(text, "redis-cli -s ([^ ]+) SPILL.MODE");
}
pid_t DaemonIn(const std::string& text) { return std::stoi("0" + Caught(text, "is pid ([0-9]+)")); }

// A process that is dead and not yet reaped runs no more.
bool Runs(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string number, name, state;
  return static_cast<bool>(file >> number >> name >> state) && state != "Z" && state != "X";
}
bool EndsWithin(pid_t pid, seconds time) {
  const auto give_up = std::chrono::steady_clock::now() + time;
  while (Runs(pid) && std::chrono::steady_clock::now() < give_up) ::poll(nullptr, 0, 1);
  return !Runs(pid);
}

std::set<std::string> NeighboursIn(const std::string& text) {
  std::set<std::string> pids;
  const std::regex has("neighbour pid ([0-9]+) has its");
  for (std::sregex_iterator it(text.begin(), text.end(), has), end; it != end; ++it) {
    pids.insert((*it)[1]);
  }
  return pids;
}

TEST_F(DemoTest, PlaysToItsEndWithoutATerminal) {
  Program demo({SPILLWAY_BIN, "demo", "--for", "6s", "--card-size", "64MiB"});
  const pid_t pid = demo.pid();
  ASSERT_EQ(demo.End(), 0) << demo.text();
  const std::string& text = demo.text();
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text,
              AllOf(HasSubstr("on a card of 64 MiB, for 6 s"), HasSubstr("usual 2 min|30 s")));

  const std::set<std::string> neighbours = NeighboursIn(text);
  EXPECT_FALSE(neighbours.empty()) << text;
  EXPECT_FALSE(neighbours.contains(std::to_string(pid)));
  EXPECT_FALSE(neighbours.contains(std::to_string(DaemonIn(text))));

  EXPECT_THAT(text, AllOf(HasSubstr("fill: "), HasSubstr("a stranger: "), HasSubstr("summary: ")));
  EXPECT_THAT(text, HasSubstr("dropped"));
  EXPECT_THAT(text, HasSubstr("destroyed   0 entries"));
  EXPECT_THAT(text, HasSubstr(", 0 wrong bytes\n"));
  EXPECT_THAT(text, Not(HasSubstr("trouble")));
  EXPECT_THAT(text, HasSubstr("curl -s http://127.0.0.1:7380/metrics"));
  EXPECT_TRUE(NothingIsLeftOf(pid));
  EXPECT_FALSE(Runs(DaemonIn(text)));
}

std::uint16_t HttpPortIn(const std::string& text) {
  return static_cast<std::uint16_t>(
      std::stoi("0" + Caught(text, "open http://127.0.0.1:([0-9]+)/")));
}

Result<demo::MetricsPage> PageOf(demo::HttpClient& http) {
  const Result<std::string> metrics = http.Get("/metrics");
  if (!metrics) return metrics.error();
  return demo::MetricsPage::Read(*metrics);
}

// Looks again until it holds; false: not in half a minute.
bool Eventually(const std::function<bool()>& holds) {
  const auto give_up = std::chrono::steady_clock::now() + seconds(30);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    ::poll(nullptr, 0, 20);
  }
  return true;
}

// The first number behind `what` in the summary, and what /metrics says.
void ExpectAgrees(const std::string& text, const demo::MetricsPage& page, const std::string& what,
                  const std::string& figure, int decimals) {
  std::string said = Caught(text, what);
  std::erase(said, ',');
  EXPECT_TRUE(page.has("spillway_demo_" + figure)) << figure;
  EXPECT_EQ(said, fmt::format("{:.{}f}", page["spillway_demo_" + figure], decimals))
      << what << " in:\n"
      << text;
}

// All phases, each told when it begins and when it ends; then its summary, beside
// the metrics of the daemon that still answers.
TEST_F(DemoTest, TellsTheWholeStoryAndItsSummaryAgreesWithTheMetrics) {
  Program demo({SPILLWAY_BIN, "demo", "--whole", "--for", "30s", "--card-size", "64MiB", "--trace",
                Path("turns.jsonl")});
  const pid_t pid = demo.pid();
  ASSERT_TRUE(demo.ReadUntil("squeezed: ")) << demo.text();
  demo::HttpClient http(HttpPortIn(demo.text()));
  const Result<std::string> caption = http.Get("/api/v1/caption");
  ASSERT_TRUE(caption) << caption.error().message;
  EXPECT_THAT(*caption, ContainsRegex(R"x("phase":"(a stranger|squeezed)","text":"[^"]+)x"));
  ASSERT_TRUE(demo.ReadUntil("(seed)")) << demo.text();
  ASSERT_TRUE(demo.ReadUntil("prefill saved")) << demo.text();
  const Result<demo::MetricsPage> page = PageOf(http);
  ASSERT_TRUE(page) << page.error().message;
  ASSERT_EQ(demo.End(), 0) << demo.text();
  const std::string& text = demo.text();

  std::size_t at = 0;
  for (const char* phase : {"fill", "work", "a stranger", "squeezed", "it leaves", "kill -9"}) {
    for (int times = 0; times < 2; ++times) {  // It begins, and what it came to.
      at = text.find(std::string("s  ") + phase + ": ", at + 1);
      ASSERT_NE(at, text.npos) << phase << " in:\n" << text;
    }
  }
  ASSERT_NE(text.find("s  summary: ", at), text.npos);
  EXPECT_THAT(text, ContainsRegex("resumed [a-z0-9-]+ [0-9,]+ tokens in [0-9.]+ m?s, prefill"));
  EXPECT_THAT(text, ContainsRegex("took [0-9.]+ MiB: sensed [0-9.]+ [mu]?s, had it [0-9.]+ m?s"));
  EXPECT_THAT(text, ContainsRegex("blocks in memory before the step, LRU would have kept [0-9]+"));

  const std::string summary = text.substr(text.find("\nsummary: "));
  const auto agrees = [&](const std::string& what, const char* figure, int decimals = 0) {
    ExpectAgrees(summary, *page, what, figure, decimals);
  };
  agrees("destroyed +([0-9,]+) entries", "destroyed_total");
  agrees("entries of ([0-9,]+) contexts", "contexts");
  agrees("saved +([0-9.]+) s of prefill", "saved_prefill_seconds_total", 1);
  agrees("prefill, ([0-9.]+) s spent", "spent_prefill_seconds_total", 1);
  agrees("by byte, ([0-9,]+) wrong", "wrong_bytes_total");
  agrees("hits +([0-9,]+) of", "hits_total");
  agrees("[0-9] %.; ([0-9,]+) set", "sets_total");
  agrees("of ([0-9,]+) turns", "turns_total");
  agrees("resumed +([0-9,]+) of", "resumes_total");
  agrees("; ([0-9,]+) of [0-9,]+ on disk verified", "kill_verified");
  agrees("; [0-9,]+ of ([0-9,]+) on disk verified", "kill_on_disk");
  agrees(".LRU. +([0-9.]+) s", "replay_lru_saved_seconds", 1);
  agrees(".seed. +([0-9.]+) s", "replay_seed_saved_seconds", 1);
  EXPECT_EQ((*page)["spillway_demo_destroyed_total"], 0);
  EXPECT_EQ((*page)["spillway_demo_wrong_bytes_total"], 0);
  EXPECT_GT((*page)["spillway_demo_kill_on_disk"], 100);
  // Some may get to disk between the last look and the kill.
  EXPECT_GE((*page)["spillway_demo_kill_verified"], (*page)["spillway_demo_kill_on_disk"]);
  // Two lives: the daemon that answers has seen a part of it.
  EXPECT_GT((*page)["spillway_hits_total"], 0);
  EXPECT_GT((*page)["spillway_demo_hits_total"], (*page)["spillway_hits_total"]);
  EXPECT_EQ((*page)["spillway_disk_recovered"], (*page)["spillway_demo_kill_verified"]);
  EXPECT_THAT(text, Not(HasSubstr("trouble")));
  EXPECT_TRUE(NothingIsLeftOf(pid));
  EXPECT_TRUE(std::filesystem::exists(Path("turns.jsonl")));
}

// The same story on a part of a GPU, whose driver counts what every process takes.
class GpuDemoTest : public DemoTest {
 protected:
  GpuDemoTest() {
    testing::FakeGpuOptions options;
    options.total = kTotal;
    options.granularity = 64 * kKiB;
    options.thread = true;
    options.together = Path("together");
    ::setenv("SPILLWAY_CUDA_LIBRARY",
             testing::FakeGpu::Library(GpuKind::kCuda, SPILLWAY_FAKES_DIR).c_str(), 1);
    ::setenv("SPILLWAY_FAKE_GPU", options.Text().c_str(), 1);
    ::setenv("SPILLWAY_STATE_DIR", Path("state").c_str(), 1);
  }
  ~GpuDemoTest() override {
    for (const char* name : {"SPILLWAY_FAKE_GPU", "SPILLWAY_STATE_DIR"}) ::unsetenv(name);
  }
  static constexpr Bytes kTotal = 2 * kGiB;
};

TEST_F(GpuDemoTest, TellsTheWholeStory) {
  Program demo({SPILLWAY_BIN, "demo", "--whole", "--for", "30s", "--card-size", "64MiB"});
  const pid_t pid = demo.pid();
  ASSERT_TRUE(demo.ReadUntil("work: ")) << demo.text();
  demo::HttpClient http(HttpPortIn(demo.text()));
  const Result<demo::MetricsPage> page = PageOf(http);
  ASSERT_TRUE(page) << page.error().message;
  EXPECT_EQ((*page)["spillway_tier_size_bytes{tier=\"device\"}"], 64 * kMiB);
  EXPECT_TRUE(Eventually([&] {  // On a busy machine agents are late.
    const Result<demo::MetricsPage> now = PageOf(http);
    return now && (*now)["spillway_tier_bytes{tier=\"device\"}"] > 20 * kMiB;
  }));
  ASSERT_EQ(demo.End(), 0) << demo.text();
  const std::string& text = demo.text();
  EXPECT_THAT(text, HasSubstr("on 64 MiB of cuda:0, for 30 s"));
  EXPECT_THAT(text,
              HasSubstr("its card is 64 MiB of the 2 GiB that are free on cuda:0 (Fake GPU)"));
  for (const char* phase : {"fill", "work", "a stranger", "squeezed", "it leaves", "kill -9"}) {
    EXPECT_THAT(text, HasSubstr(std::string("s  ") + phase + ": "));
  }
  EXPECT_THAT(text, ContainsRegex("resumed [a-z0-9-]+ [0-9,]+ tokens in [0-9.]+ m?s, prefill"));
  // Of the first at least some had to leave the card for the stranger.
  EXPECT_THAT(text, ContainsRegex("took 32 MiB: sensed [0-9.]+ [mu]?s, had it [0-9.]+ m?s, [1-9]"));
  EXPECT_THAT(text, HasSubstr("destroyed   0 entries"));
  EXPECT_THAT(text, HasSubstr(", 0 wrong bytes\n"));
  EXPECT_THAT(text, HasSubstr("on 64 MiB of cuda:0 (Fake GPU); below it 16 MiB of RAM"));
  EXPECT_THAT(text, Not(HasSubstr("trouble")));
  EXPECT_TRUE(NothingIsLeftOf(pid));
}

TEST_F(GpuDemoTest, OnlyASmallPartOfWhatIsFreeIsPlayedOn) {
  Program large({SPILLWAY_BIN, "demo", "--device", "cuda:0", "--card-size", "512MiB"});
  EXPECT_EQ(large.End(), 2);
  EXPECT_THAT(large.text(), HasSubstr("512 MiB of cuda:0 (Fake GPU) are more than an eighth of the "
                                      "2 GiB that are free there"));
  // An eighth of it is no story: on a virtual card, and that is said.
  Program small({SPILLWAY_BIN, "demo", "--for", "1s"});
  EXPECT_EQ(small.End(), 0) << small.text();
  EXPECT_THAT(small.text(),
              AllOf(HasSubstr("the card is virtual"), HasSubstr("less than 512 MiB")));
  Program none({SPILLWAY_BIN, "demo", "--device", "cuda:3"});
  EXPECT_EQ(none.End(), 1);
  EXPECT_THAT(none.text(), AllOf(HasSubstr("cuda:3: "), HasSubstr("'3'"),
                                 HasSubstr("without a GPU, \"cpu\" is right")));
  Program wrong({SPILLWAY_BIN, "demo", "--device", "gpu"});
  EXPECT_EQ(wrong.End(), 2);
  EXPECT_THAT(wrong.text(), HasSubstr("right are auto, cpu, cuda"));
  Program cpu({SPILLWAY_BIN, "demo", "--device", "cpu", "--for", "1s", "--card-size", "16MiB"});
  EXPECT_EQ(cpu.End(), 0) << cpu.text();
  EXPECT_THAT(cpu.text(), AllOf(HasSubstr("the card is virtual"), Not(HasSubstr("cuda:0"))));
}

TEST_F(DemoTest, AShortOnesNumbersAreTheDaemonsOwn) {
  // All others stand still by then; the daemon itself may drop one more between the
  // telling and our look, though not each time.
  bool same_dropped = false;
  for (int tries = 0; tries < 3 && !same_dropped; ++tries) {
    Program demo({SPILLWAYD_BIN, "--demo", "--for", "8s"});
    ASSERT_TRUE(demo.ReadUntil("(seed)")) << demo.text();
    demo::HttpClient http(HttpPortIn(demo.text()));
    const Result<demo::MetricsPage> page = PageOf(http);
    ASSERT_TRUE(page) << page.error().message;
    const demo::Totals totals = demo::TotalsOf(*page);
    const auto told = [&](const char* figure) {
      return static_cast<std::uint64_t>((*page)[std::string("spillway_demo_") + figure]);
    };
    EXPECT_EQ(told("hits_total"), totals.hits);
    EXPECT_EQ(told("misses_total"), totals.misses);
    EXPECT_EQ(told("sets_total"), totals.sets);
    EXPECT_LE(told("dropped_total"), totals.dropped);
    EXPECT_EQ(told("destroyed_total"), totals.destroyed);
    EXPECT_EQ(demo.End(), 0) << demo.text();
    EXPECT_THAT(demo.text(), Not(HasSubstr("kill -9: ")));
    same_dropped = told("dropped_total") == totals.dropped;
  }
  EXPECT_TRUE(same_dropped);
}

// Ctrl-C wherever it strikes: a summary, exit 0, and nothing is left.
TEST_F(DemoTest, CtrlCEndsItInEveryScene) {
  for (const char* scene : {"fill: ", "a stranger: ", "kill -9: ", "killed, pid"}) {
    Program demo({SPILLWAY_BIN, "demo", "--whole", "--for", "10s", "--card-size", "64MiB"});
    const pid_t pid = demo.pid();
    ASSERT_TRUE(demo.ReadUntil(scene)) << demo.text();
    ASSERT_EQ(::kill(pid, SIGINT), 0);
    EXPECT_EQ(demo.End(), 0) << scene << demo.text();
    EXPECT_THAT(demo.text(), HasSubstr("\nsummary: ")) << scene;
    EXPECT_TRUE(NothingIsLeftOf(pid)) << scene;
  }
}

TEST_F(DemoTest, TheDaemonPlaysItToo) {
  Program demo({SPILLWAYD_BIN, "--demo", "--for", "4s"});
  const pid_t pid = demo.pid();
  ASSERT_EQ(demo.End(), 0) << demo.text();
  EXPECT_THAT(demo.text(), HasSubstr("spillwayd --demo: a dozen agents"));
  EXPECT_THAT(demo.text(), HasSubstr("open http://127.0.0.1:"));
  EXPECT_THAT(demo.text(), HasSubstr("wants "));
  EXPECT_THAT(demo.text(), HasSubstr(", 0 wrong bytes\n"));
  EXPECT_TRUE(NothingIsLeftOf(pid));
}

TEST_F(DemoTest, AgentsAreClientsAndAllFiguresAreTheDaemons) {
  // It ends when we say so, and its daemon is killed after 45 s: agents may be late.
  Program demo({SPILLWAY_BIN, "demo", "--for", "10min", "--card-size", "64MiB"});
  ASSERT_TRUE(demo.ReadUntil("RELAXED")) << demo.text();
  Result<demo::Client> client = demo::Client::Connect(SocketIn(demo.text()));
  ASSERT_TRUE(client) << client.error().message;
  std::string last;
  EXPECT_TRUE(Eventually([&] {
    const Result<demo::Reply> told = client->Ask({"SPILL.STATS", "JSON"});
    if (!told) return false;
    last = told->text;
    const Result<demo::Report> report = demo::ReadReport(told->text);
    // The agents, the graph's, the watcher's, ours.
    return report && report->clients >= 12U + 3U && report->stats.hits > 0;
  })) << last;
  EXPECT_TRUE(Eventually([&] {
    const Result<demo::Reply> there = client->Ask({"EXISTS", "system/0", "planner/prefix/0"});
    return there && there->number == 2;
  }));
  EXPECT_THAT(client->Ask({"SPILL.EXPLAIN", "planner/prefix/0"})->text, HasSubstr("planner"));

  demo::HttpClient http(HttpPortIn(demo.text()));
  EXPECT_TRUE(Eventually([&] {
    const Result<std::string> metrics = http.Get("/metrics");
    if (metrics) last = *metrics;
    bool all = metrics.has_value();
    for (const char* command : {"spill.set", "spill.graph|load", "spill.graph|finish"}) {
      const std::string calls =
          fmt::format("spillway_command_calls_total{{command=\"{}\"}}", command);
      all = all && metrics->find(calls) != std::string::npos;
    }
    return all;
  })) << last;
  EXPECT_FALSE(http.Get("/nothing/here"));
  EXPECT_TRUE(http.Get("/healthz"));
  ASSERT_EQ(::kill(demo.pid(), SIGINT), 0);
  EXPECT_EQ(demo.End(), 0) << demo.text();
}

TEST_F(DemoTest, AWrongByteIsFoundAndToldByTheExitStatus) {
  // It ends when we say so: on a busy machine agents are late to read it.
  Program demo({SPILLWAY_BIN, "demo", "--for", "10min", "--card-size", "64MiB"});
  ASSERT_TRUE(demo.ReadUntil("RELAXED")) << demo.text();
  Result<demo::Client> client = demo::Client::Connect(SocketIn(demo.text()));
  ASSERT_TRUE(client) << client.error().message;
  std::string bytes;
  ASSERT_TRUE(Eventually([&] {
    const Result<demo::Reply> before = client->Ask({"GET", "system/0"});
    if (before) bytes = before->text;
    return !bytes.empty();
  }));
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  ASSERT_TRUE(client->Ask({"SPILL.SET", "system/0", bytes, "TOKENS", "256"}));
  demo::HttpClient http(HttpPortIn(demo.text()));
  EXPECT_TRUE(Eventually([&] {
    const Result<demo::MetricsPage> page = PageOf(http);
    return page && (*page)["spillway_demo_wrong_bytes_total"] > 0;
  }));
  ASSERT_EQ(::kill(demo.pid(), SIGINT), 0);
  EXPECT_EQ(demo.End(), 1);
  EXPECT_THAT(demo.text(), ContainsRegex("byte by byte, [1-9][0-9,]* wrong bytes"));
}

TEST_F(DemoTest, OneThatIsKilledLeavesNoProcess) {
  Program demo({SPILLWAY_BIN, "demo", "--for", "6s", "--card-size", "64MiB"});
  ASSERT_TRUE(demo.ReadUntil("neighbour pid ")) << demo.text();
  ASSERT_TRUE(demo.ReadUntil(" wants ")) << demo.text();
  const pid_t daemon = DaemonIn(demo.text());
  const pid_t neighbour = std::stoi("0" + Caught(demo.text(), "neighbour pid ([0-9]+) wants"));
  ASSERT_TRUE(Runs(daemon));
  const std::string folder = Path("demo-" + std::to_string(demo.pid()));
  EXPECT_TRUE(std::filesystem::exists(folder));
  ASSERT_EQ(::kill(demo.pid(), SIGKILL), 0);
  EXPECT_EQ(demo.End(), -1);
  EXPECT_TRUE(EndsWithin(daemon, seconds(10)));
  EXPECT_TRUE(EndsWithin(neighbour, seconds(10)));
  // Its last thread closes the socket; where somebody listens nothing is taken away.
  for (int i = 0; i < 10'000 && demo::Client::Connect(folder + "/spillway.sock"); ++i) {
    ::poll(nullptr, 0, 1);
  }
  // What files it left the next one takes away.
  Program next({SPILLWAY_BIN, "demo", "--for", "1s", "--card-size", "16MiB"});
  EXPECT_EQ(next.End(), 0) << next.text();
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST_F(DemoTest, ADaemonThatDiesIsTold) {
  Program demo({SPILLWAY_BIN, "demo", "--for", "10min", "--card-size", "64MiB"});
  const pid_t pid = demo.pid();
  ASSERT_TRUE(demo.ReadUntil("RELAXED")) << demo.text();
  ASSERT_EQ(::kill(DaemonIn(demo.text()), SIGKILL), 0);
  EXPECT_EQ(demo.End(), 1);
  EXPECT_THAT(demo.text(), HasSubstr("ended by itself, signal 9"));
  EXPECT_TRUE(NothingIsLeftOf(pid));
}

TEST_F(DemoTest, APortInUseIsNamedAndNothingIsStarted) {
  const int taken = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof at;
  ASSERT_EQ(::bind(taken, reinterpret_cast<sockaddr*>(&at), bytes), 0);
  ASSERT_EQ(::listen(taken, 1), 0);
  ASSERT_EQ(::getsockname(taken, reinterpret_cast<sockaddr*>(&at), &bytes), 0);
  const std::string port = std::to_string(ntohs(at.sin_port));
  for (const char* flag : {"--port", "--http-port"}) {
    Program demo({SPILLWAYD_BIN, "--demo", "--for", "4s", flag, port});
    const pid_t pid = demo.pid();
    EXPECT_EQ(demo.End(), 1) << flag;
    EXPECT_THAT(demo.text(), HasSubstr("127.0.0.1:" + port)) << flag;
    EXPECT_THAT(demo.text(), Not(HasSubstr("RELAXED")));
    EXPECT_TRUE(NothingIsLeftOf(pid));
  }
  ::close(taken);
}

TEST_F(DemoTest, WithoutTheOtherProgramItSaysWhatIsMissing) {
  const std::string alone = Path("spillwayd");
  std::filesystem::copy_file(SPILLWAYD_BIN, alone);
  Program demo({alone, "--demo", "--for", "4s"});
  EXPECT_EQ(demo.End(), 1);
  EXPECT_THAT(demo.text(), HasSubstr("needs the program spillway beside " + alone));
}

TEST_F(DemoTest, RecordsWhatTheCardSaid) {
  Program demo({SPILLWAY_BIN, "demo", "--for", "2s", "--card-size", "16MiB", "--record",
                Path("record.csv")});
  ASSERT_EQ(demo.End(), 0) << demo.text();
  std::ifstream file(Path("record.csv"));
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(line, "t,total,free,others,ours_backed,ours_unbacked,level");
  int lines = 0;
  while (std::getline(file, line)) {
    ++lines;
    std::istringstream fields(line);
    double t = 0;
    std::uint64_t total = 0, free = 0, others = 0, backed = 0, unbacked = 0;
    char comma = 0;
    fields >> t >> comma >> total >> comma >> free >> comma >> others >> comma >> backed >> comma >>
        unbacked >> comma;
    EXPECT_TRUE(fields) << line;
    EXPECT_EQ(total, 16U << 20U);
    EXPECT_LE(free + others + backed + unbacked, total);
  }
  EXPECT_GT(lines, 3);
}

TEST_F(DemoTest, DrawsATableOnATerminalAndLeavesItAsItWas) {
  ::setenv("TERM", "xterm", 1);
  Program demo({SPILLWAY_BIN, "demo", "--for", "10min", "--card-size", "64MiB"},
               Program::Out::kTerminal);
  ASSERT_TRUE(demo.ReadUntil("what left, and why")) << demo.text();
  ASSERT_EQ(::kill(demo.pid(), SIGINT), 0);
  EXPECT_EQ(demo.End(), 0);
  const std::string& text = demo.text();
  const std::size_t entered = text.find("\x1b[?1049h");
  const std::size_t left = text.find("\x1b[?1049l");
  ASSERT_NE(entered, text.npos);
  ASSERT_NE(left, text.npos);
  EXPECT_LT(entered, text.find("researcher-1"));
  EXPECT_LT(left, text.find("summary: "));
  EXPECT_THAT(text, HasSubstr(", 0 wrong bytes"));
}

TEST_F(DemoTest, CtrlCEndsItWithASummary) {
  Program demo({SPILLWAY_BIN, "demo", "--for", "10min", "--card-size", "64MiB"});
  const pid_t pid = demo.pid();
  ASSERT_TRUE(demo.ReadUntil("RELAXED"));
  ASSERT_EQ(::kill(pid, SIGINT), 0);
  EXPECT_EQ(demo.End(), 0) << demo.text();
  EXPECT_THAT(demo.text(), HasSubstr("summary: "));
  EXPECT_TRUE(NothingIsLeftOf(pid));
}

TEST_F(DemoTest, EndsWhenNobodyReads) {
  Program demo({SPILLWAY_BIN, "demo", "--for", "10min", "--card-size", "64MiB"});
  const pid_t pid = demo.pid();
  ASSERT_TRUE(demo.ReadUntil("RELAXED"));
  demo.CloseOutput();
  EXPECT_EQ(demo.End(), 0);
  EXPECT_TRUE(NothingIsLeftOf(pid));
}

TEST_F(DemoTest, WrongArgumentsAreNamed) {
  struct Wrong {
    std::vector<std::string> words;
    int status;
    std::string message;
  };
  const std::string demo = SPILLWAY_BIN;
  const std::string daemon = SPILLWAYD_BIN;
  const std::vector<Wrong> wrong = {
      {{demo, "demo", "--for", "20"}, 2, "--for: "},
      {{demo, "demo", "--for", "0s"}, 2, "a demo of 0 s can't be played"},
      {{demo, "demo", "--card-size", "4G"}, 2, "--card-size: "},
      {{demo, "demo", "--card-size", "1MiB"}, 2, "a card of 1 MiB is too small"},
      {{demo, "demo", "--card-size", "1024TiB"}, 2, "more than half of the"},
      {{demo, "demo", "--for", "1s", "--record", "/nowhere/record.csv"},
       1,
       "cannot write '/nowhere/record.csv'"},
      {{demo, "demo", "--fast"}, 2, "--fast"},
      {{daemon, "--demo", "--for", "20"}, 2, "--for: "},
      {{daemon, "--demo", "--for", "0s"}, 2, "a demo of 0 s can't be played"},
      {{daemon, "--demo", "--config", "x.toml"}, 2, "leave out --config, --dir and --trace"},
      {{daemon, "--demo", "--http-port", "0"}, 2, "watched by HTTP"},
      {{daemon, "--demo", "--port", "65536"}, 2, "65536 is no port"},
      {{daemon, "--demo", "--socket", "/nowhere/s.sock"}, 1, "/nowhere/s.sock: No such file"},
  };
  for (const auto& [words, status, message] : wrong) {
    Program program(words);
    EXPECT_EQ(program.End(), status) << message;
    EXPECT_THAT(program.text(), HasSubstr(message));
  }
}

}  // namespace
}  // namespace spillway
