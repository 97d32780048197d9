// SPDX-License-Identifier: Apache-2.0
// Real host pressure: a cache and a neighbour run in one memory control group of 512
// MiB. The neighbour fills it; the cache, which knows only the readings of the source
// "host", makes way, and the kernel kills no process.
//
// Where a group can't be made (no root, a read-only cgroupfs, version 2 without
// delegation, a sanitizer's appetite) the first test skips and says so; the
// second shows the same with files in the kernel's place.

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/host_memory.h"
#include "base/parse.h"
#include "base/small_file.h"
#include "monitor/source/kind.h"
#include "monitor/testing/file_tree.h"
#include "spillway/cache.h"

extern char** environ;

namespace spillway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using SteadyClock = std::chrono::steady_clock;

constexpr Bytes kLimit = 512 * kMiB;
constexpr Bytes kEntry = kMiB;
constexpr int kEntries = 300;
constexpr Bytes kNeighbourWants = 300 * kMiB;
constexpr Bytes kNeighbourStep = 8 * kMiB;
// Steps are 1.6 % of the group; from PRESSURE to EMERGENCY it takes the
// neighbour seven of them, a quarter of a second.
constexpr milliseconds kNeighbourPause(40);
// If the machine is so busy that the cache has read pressure less often since, the
// neighbour waits for it. Otherwise the readings take a fraction of the pause.
constexpr std::uint64_t kReadingsBetween = 3;
constexpr seconds kAllWithin(30);

constexpr const char* kRoleVariable = "SPILLWAY_TEST_HOST_ROLE";
constexpr const char* kBoardVariable = "SPILLWAY_TEST_HOST_BOARD";
// Only with faked files: the file that says how much is in use.
constexpr const char* kCurrentVariable = "SPILLWAY_TEST_HOST_CURRENT";
// With faked files: what the programs themselves need, and page cache, which is
// available and need not be made room for.
constexpr Bytes kFakedPrograms = 12 * kMiB;
constexpr Bytes kFakedPageCache = 80 * kMiB;

// What the three processes tell one another.
struct Board {
  std::atomic<Bytes> cache_held{0};
  std::atomic<Bytes> neighbour_held{0};
  std::atomic<std::uint64_t> readings{0};  // Begun by the cache.
  std::atomic<bool> filled{false};
  std::atomic<bool> grow{false};
  std::atomic<bool> look{false};  // The cache may look through what it has left.
  std::atomic<bool> looked{false};
  std::atomic<bool> finish{false};
  std::atomic<int> entries{0};
  std::atomic<int> right{0};
  std::atomic<int> wrong{0};
  std::atomic<std::uint64_t> left_in_emergency{0};
};

void Pause(milliseconds time) { std::this_thread::sleep_for(time); }

// --- the cache's process ---

std::string KeyOf(int i) { return fmt::format("context:{}", i); }

void ContentOf(int i, std::string* into) {
  into->resize(kEntry);
  for (std::size_t at = 0; at < kEntry; ++at) {
    (*into)[at] = static_cast<char>((at * 31 + static_cast<std::size_t>(i) * 7) >> 3);
  }
}

bool Fill(Cache* cache, Board* board) {
  std::string content;
  const auto deadline = SteadyClock::now() + kAllWithin;
  // While readings are late (UNKNOWN) the cache does not grow: entries that were
  // evicted for others are set again.
  while (cache->size() < kEntries) {
    if (SteadyClock::now() >= deadline) return false;
    for (int i = 0; i < kEntries; ++i) {
      if (cache->Contains(KeyOf(i))) continue;
      ContentOf(i, &content);
      if (!cache->Set(KeyOf(i), Source(content.data(), content.size()))) Pause(milliseconds(1));
      board->cache_held = cache->stats().device.held;
    }
  }
  return true;
}

void LookThrough(Cache* cache, Board* board) {
  std::string content;
  for (int i = 0; i < kEntries; ++i) {
    const auto got = cache->Get(KeyOf(i));
    if (!got || !*got) continue;
    ContentOf(i, &content);
    ++((*got)->text() == content ? board->right : board->wrong);
  }
  const Stats stats = cache->stats();
  board->entries = static_cast<int>(stats.entries);
  board->left_in_emergency = stats.removed_by_reason[static_cast<std::size_t>(Reason::kIdle)];
  board->looked = true;
}

// The kernel's figure is never old. A file that another process wrote a millisecond ago
// would be, and the cache would make the same room twice. So the faked file is written
// just before it is read.
class OnFakedFiles final : public PressureSource {
 public:
  OnFakedFiles(std::shared_ptr<PressureSource> host, std::string current, Board* board)
      : host_(std::move(host)), current_(std::move(current)), board_(board) {}

  void Count(Cache* cache) { cache_ = cache; }

  Result<Reading> Read() override {
    board_->cache_held = cache_->stats().device.held;
    const Bytes held = board_->cache_held + board_->neighbour_held;
    std::ofstream(current_ + ".new")
        << fmt::format("{}\n", held + kFakedPrograms + kFakedPageCache);
    std::rename((current_ + ".new").c_str(), current_.c_str());
    return host_->Read();
  }
  std::string_view name() const override { return host_->name(); }

 private:
  const std::shared_ptr<PressureSource> host_;
  const std::string current_;
  Board* const board_;
  Cache* cache_ = nullptr;
};

// Counts on the board how often the cache reads pressure.
class Counted final : public PressureSource {
 public:
  Counted(std::shared_ptr<PressureSource> source, Board* board)
      : source_(std::move(source)), board_(board) {}

  Result<Reading> Read() override {
    ++board_->readings;
    return source_->Read();
  }
  std::string_view name() const override { return source_->name(); }
  int wake_fd() const override { return source_->wake_fd(); }

 private:
  const std::shared_ptr<PressureSource> source_;
  Board* const board_;
};

int RunCache(Board* board) {
  const auto host = OpenSource("host", Machine::FromEnvironment());
  if (!host) {
    fmt::print(stderr, "{}\n", host.error().message);
    return 2;
  }
  Options options;
  options.device = "cpu";
  options.capacity = 400 * kMiB;
  options.pressure = *host;
  options.sample_period = milliseconds(5);
  options.dwell = milliseconds(20);
  options.idle_critical = milliseconds(100);  // In an EMERGENCY all may be evicted.
  std::shared_ptr<OnFakedFiles> faked;
  if (const char* current = std::getenv(kCurrentVariable); current != nullptr) {
    options.pressure = faked = std::make_shared<OnFakedFiles>(*host, current, board);
  }
  options.pressure = std::make_shared<Counted>(options.pressure, board);
  auto cache = Cache::Open(options);
  if (cache && faked) faked->Count(cache->get());
  if (!cache || !(*cache)->Start() || !Fill(cache->get(), board)) return 3;
  board->filled = true;
  while (!board->finish) {
    board->cache_held = (*cache)->stats().device.held;
    if (board->look && !board->looked) LookThrough(cache->get(), board);
    Pause(milliseconds(1));
  }
  return 0;
}

// --- the neighbour's process ---

int RunNeighbour(Board* board) {
  while (!board->grow && !board->finish) Pause(milliseconds(1));
  void* memory = ::mmap(nullptr, kNeighbourWants, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return 2;
  for (Bytes at = 0; at < kNeighbourWants && !board->finish;) {
    const Bytes step = std::min(kNeighbourStep, kNeighbourWants - at);
    std::memset(static_cast<char*>(memory) + at, 1, step);
    at += step;
    board->neighbour_held = at;
    const std::uint64_t readings = board->readings;
    Pause(kNeighbourPause);
    while (board->readings < readings + kReadingsBetween && !board->finish) Pause(milliseconds(1));
  }
  while (!board->finish) Pause(milliseconds(1));
  return 0;
}

// This very program is run again for the two processes, since threads don't survive a
// fork. A process takes its role before any test begins.
class Roles : public ::testing::Environment {
 public:
  void SetUp() override {
    const char* role = std::getenv(kRoleVariable);
    const char* board_fd = std::getenv(kBoardVariable);
    if (role == nullptr || board_fd == nullptr) return;
    void* shared =
        ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, std::atoi(board_fd), 0);
    if (shared == MAP_FAILED) ::_exit(1);
    auto* board = static_cast<Board*>(shared);
    ::_exit(role == std::string_view("cache") ? RunCache(board) : RunNeighbour(board));
  }
};
::testing::Environment* const kRoles = ::testing::AddGlobalTestEnvironment(new Roles);

// --- groups ---

// Where the two live: a control group, or files that look like one.
class Group {
 public:
  virtual ~Group() = default;
  // A process enters the group by writing "0" to this file; empty: there is none.
  virtual std::string Door() const { return {}; }
  // Where the cache is to look for /proc and /sys.
  virtual std::vector<std::string> Environment() const { return {}; }
  // How much the two hold, by their own count.
  virtual void Told(Bytes) {}
  virtual std::string Kills() const = 0;
};

bool WriteTo(const std::string& file, std::string_view text) {
  std::ofstream out(file);
  out << text << std::flush;
  return out.good();
}

// Below the group of this process, so that its limits hold for them, too.
class RealGroup final : public Group {
 public:
  static std::unique_ptr<Group> Make(std::string* why_not) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    *why_not = "a sanitizer's own memory does not fit the group";
    return nullptr;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    *why_not = "a sanitizer's own memory does not fit the group";
    return nullptr;
#endif
#endif
    *why_not = "there are no control groups";
    const auto hierarchies = OwnCgroups("/proc", "/sys");
    if (!hierarchies) return nullptr;
    for (const CgroupHierarchy& hierarchy : *hierarchies) {
      auto group = std::unique_ptr<RealGroup>(new RealGroup(hierarchy));
      *why_not = group->Prepare();
      if (why_not->empty()) return group;
    }
    return nullptr;
  }
  ~RealGroup() override {
    // The last process may not have left the group yet.
    for (int i = 0; made_ && ::rmdir(path_.c_str()) != 0 && i < 1000; ++i) Pause(milliseconds(1));
  }

  std::string Door() const override { return path_ + "/cgroup.procs"; }
  std::string Kills() const override {
    const auto text = ReadSmallFile(path_ + (first_ ? "/memory.oom_control" : "/memory.events"));
    if (!text || !*text) return "unknown";
    const std::optional<Bytes> kills = StatBytes(**text, "oom_kill");
    return kills ? fmt::format("{}", *kills) : "unknown";
  }

 private:
  explicit RealGroup(const CgroupHierarchy& hierarchy)
      : first_(hierarchy.version == 1),
        path_(fmt::format("{}{}/spillway-host-pressure-{}", hierarchy.mount, hierarchy.path,
                          ::getpid())) {}

  // Empty: the group exists, with its limit; otherwise the reason why not.
  std::string Prepare() {
    made_ = ::mkdir(path_.c_str(), 0755) == 0;
    if (!made_) return fmt::format("mkdir {}: {}", path_, std::strerror(errno));
    const std::string limit = path_ + (first_ ? "/memory.limit_in_bytes" : "/memory.max");
    if (::access(limit.c_str(), W_OK) != 0 || !WriteTo(limit, fmt::format("{}", kLimit))) {
      return fmt::format("{} cannot be set", limit);
    }
    // Swapping would hide what the test checks. Not every kernel counts it.
    const std::string swap = path_ + (first_ ? "/memory.swappiness" : "/memory.swap.max");
    if (::access(swap.c_str(), W_OK) == 0) (void)WriteTo(swap, "0");
    return {};
  }

  const bool first_;
  const std::string path_;
  bool made_ = false;
};

class FakedGroup final : public Group {
 public:
  FakedGroup() {
    tree_.Write("proc/meminfo", "MemTotal: 67108864 kB\nMemAvailable: 60000000 kB\n");
    tree_.Write("proc/self/cgroup", "0::/job\n");
    tree_.Write("sys/fs/cgroup/cgroup.controllers", "memory\n");
    tree_.Write("sys/fs/cgroup/job/memory.max", fmt::format("{}\n", kLimit));
    tree_.Write("sys/fs/cgroup/job/memory.stat",
                fmt::format("inactive_file {}\n", kFakedPageCache));
    tree_.Write(kCurrent, fmt::format("{}\n", kFakedPrograms + kFakedPageCache));
  }

  std::vector<std::string> Environment() const override {
    return {"SPILLWAY_PROC_ROOT=" + tree_.Path("proc"), "SPILLWAY_SYS_ROOT=" + tree_.Path("sys"),
            fmt::format("{}={}", kCurrentVariable, tree_.Path(kCurrent))};
  }
  void Told(Bytes held) override { over_ = over_ || held + kFakedPrograms > kLimit; }
  // Above this limit the kernel would have begun to kill.
  std::string Kills() const override { return over_ ? "1" : "0"; }

 private:
  static constexpr const char* kCurrent = "sys/fs/cgroup/job/memory.current";
  testing::FileTree tree_;
  bool over_ = false;
};

// --- the test ---

// This program in another role, inside the group; killed when the test ends.
class Child {
 public:
  Child(const char* role, int board_fd, const Group& group) {
    std::vector<std::string> variables = group.Environment();
    variables.push_back(fmt::format("{}={}", kRoleVariable, role));
    variables.push_back(fmt::format("{}={}", kBoardVariable, board_fd));
    for (char** at = environ; *at != nullptr; ++at) {
      if (!std::string_view(*at).starts_with("GTEST_")) variables.emplace_back(*at);
    }
    std::vector<char*> environment;
    for (std::string& variable : variables) environment.push_back(variable.data());
    environment.push_back(nullptr);
    std::string name = role;
    // The role is taken when there is a test to run, whichever it is.
    std::string filter = "--gtest_filter=HostPressure.*";
    char* const arguments[] = {name.data(), filter.data(), nullptr};
    const std::string door = group.Door();
    pid_ = ::fork();
    if (pid_ == 0) Become(arguments, environment.data(), door);
  }
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  bool Alive() {
    if (pid_ <= 0) return false;
    if (::waitpid(pid_, &status_, WNOHANG) == 0) return true;
    pid_ = -1;
    return false;
  }
  // How it ended: "exit 0", "signal 9".
  std::string End() const {
    return WIFEXITED(status_) ? fmt::format("exit {}", WEXITSTATUS(status_))
                              : fmt::format("signal {}", WTERMSIG(status_));
  }

 private:
  [[noreturn]] static void Become(char* const* arguments, char* const* environment,
                                  const std::string& door) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!door.empty()) {
      const int fd = ::open(door.c_str(), O_WRONLY | O_CLOEXEC);
      if (fd < 0 || ::write(fd, "0", 1) != 1) ::_exit(90);
    }
    const int nowhere = ::open("/dev/null", O_WRONLY);
    ::dup2(nowhere, STDOUT_FILENO);
    ::execve("/proc/self/exe", arguments, environment);
    ::_exit(91);
  }

  pid_t pid_ = -1;
  int status_ = 0;
};

class HostPressure : public ::testing::Test {
 protected:
  void SetUp() override {
    board_fd_ = ::memfd_create("spillway-board", 0);  // Kept across exec.
    ASSERT_GE(board_fd_, 0);
    ASSERT_EQ(::ftruncate(board_fd_, sizeof(Board)), 0);
    void* shared = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, board_fd_, 0);
    ASSERT_NE(shared, MAP_FAILED);
    board_ = new (shared) Board;
  }
  void TearDown() override {
    if (board_ != nullptr) ::munmap(board_, sizeof(Board));
    if (board_fd_ >= 0) ::close(board_fd_);
  }

  Bytes Held() const { return board_->cache_held + board_->neighbour_held; }

  void TheCacheMakesWay(Group* group) {
    const auto deadline = SteadyClock::now() + kAllWithin;
    Child cache("cache", board_fd_, *group);
    Child neighbour("neighbour", board_fd_, *group);
    const auto until = [&](const std::function<bool()>& holds) {
      while (!holds()) {
        group->Told(Held());
        if (!cache.Alive() || !neighbour.Alive() || SteadyClock::now() >= deadline) return false;
        Pause(milliseconds(1));
      }
      return true;
    };
    const auto state = [&] {
      return fmt::format("cache {} ({}), neighbour {} ({}), kills {}",
                         FormatBytes(board_->cache_held), cache.Alive() ? "alive" : cache.End(),
                         FormatBytes(board_->neighbour_held),
                         neighbour.Alive() ? "alive" : neighbour.End(), group->Kills());
    };

    ASSERT_TRUE(until([&] { return board_->filled.load(); })) << state();
    EXPECT_GE(board_->cache_held, kEntries * kEntry);
    fmt::print("before: {}\n", state());

    board_->grow = true;
    ASSERT_TRUE(until([&] { return board_->neighbour_held == kNeighbourWants; })) << state();
    // By as much as was needed: the group is below PRESSURE again.
    const auto below = static_cast<Bytes>(Thresholds{}.pressure * static_cast<double>(kLimit));
    EXPECT_TRUE(until([&] { return Held() < below; })) << state();
    fmt::print("after:  {}\n", state());

    board_->look = true;
    ASSERT_TRUE(until([&] { return board_->looked.load(); })) << state();
    EXPECT_EQ(board_->wrong, 0);
    EXPECT_GE(board_->right, board_->entries);  // One or another may have been evicted since.
    // And not by much more, unless a busy machine let it come to an EMERGENCY.
    if (board_->left_in_emergency == 0) {
      EXPECT_GT(board_->right, 50);
    }
    fmt::print("{} of {} entries are left, all right\n", board_->right.load(), kEntries);

    EXPECT_TRUE(cache.Alive()) << cache.End();
    EXPECT_TRUE(neighbour.Alive()) << neighbour.End();
    EXPECT_EQ(group->Kills(), "0");
    board_->finish = true;
    (void)until([&] { return false; });  // Until one has ended,
    while (SteadyClock::now() < deadline && (cache.Alive() || neighbour.Alive())) {
      Pause(milliseconds(1));  // and the other.
    }
    EXPECT_FALSE(cache.Alive());
    EXPECT_EQ(cache.End(), "exit 0");
    EXPECT_EQ(neighbour.End(), "exit 0");
  }

  int board_fd_ = -1;
  Board* board_ = nullptr;
};

TEST_F(HostPressure, InARealGroupTheCacheMakesWayAndNobodyIsKilled) {
  std::string why_not;
  const std::unique_ptr<Group> group = RealGroup::Make(&why_not);
  if (group == nullptr) {
    GTEST_SKIP() << "no memory control group of our own (" << why_not
                 << "); shown on faked files instead";
  }
  fmt::print("in a real control group: {}\n", group->Door());
  TheCacheMakesWay(group.get());
}

TEST_F(HostPressure, OnFakedFilesTheCacheMakesWayBeforeTheGroupIsFull) {
  FakedGroup group;
  fmt::print("on faked files\n");
  TheCacheMakesWay(&group);
}

}  // namespace
}  // namespace spillway
