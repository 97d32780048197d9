#include "demo/daemon.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"
#include "demo/client.h"
#include "demo/http_client.h"

namespace spillway::demo {

namespace {

constexpr int kReadyMs = 20'000;
constexpr int kStopMs = 5'000;
constexpr int kLookMs = 5;
constexpr int kTries = 3;  // A free port may be somebody else's a moment later.

// Whether we could listen there; 0 asks for any. Nothing: no.
std::optional<std::uint16_t> FreePort(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return std::nullopt;
  const int yes = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof at;
  auto* const address = reinterpret_cast<sockaddr*>(&at);
  const bool free = ::bind(fd, address, bytes) == 0 && ::listen(fd, 1) == 0 &&
                    ::getsockname(fd, address, &bytes) == 0;
  ::close(fd);
  return free ? std::optional(ntohs(at.sin_port)) : std::nullopt;
}

Result<std::uint16_t> AnyPort() {
  const std::optional<std::uint16_t> port = FreePort(0);
  if (!port) return Error{Code::kUnavailable, "there is no free port on 127.0.0.1"};
  return *port;
}

std::string Milliseconds(Duration time) {
  return fmt::format("\"{}ms\"",
                     std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
}

Status WriteText(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (file) return {};
  return Error{Code::kUnavailable, fmt::format("cannot write {}: {}", path, std::strerror(errno))};
}

// Whether a port that was not asked for is somebody else's by now, as either side
// of the daemon says it.
bool SaysChosenPortIsTaken(std::string_view message, const DaemonOptions& options) {
  const bool taken = message.find("another process listens there") != message.npos ||
                     message.find("Address already in use") != message.npos;
  const auto names = [&](const std::optional<std::uint16_t>& port) {
    return port && message.find(fmt::format(":{}:", *port)) != message.npos;
  };
  return taken && !names(options.port) && !names(options.http_port);
}

std::string HowEnded(int status) {
  if (WIFSIGNALED(status)) return fmt::format("signal {}", WTERMSIG(status));
  return fmt::format("status {}", WEXITSTATUS(status));
}

}  // namespace

std::string DaemonToml(const Options& options) {
  std::string text = options.device == "cpu"
                         ? fmt::format("card = \"{}\"\ncapacity = \"none\"\n", options.card)
                         : fmt::format(
                               "device = \"{}\"\ncapacity = {}\npressure_source = \"{}\"\n"
                               "reserve = {}\nreserve_bytes_min = {}\n",
                               options.device, options.capacity.value_or(0),
                               options.pressure_source, options.reserve, options.reserve_bytes_min);
  if (options.host_capacity) text += fmt::format("host_capacity = {}\n", *options.host_capacity);
  if (!options.disk_dir.empty()) text += fmt::format("disk_dir = \"{}\"\n", options.disk_dir);
  if (options.disk_capacity) text += fmt::format("disk_capacity = {}\n", *options.disk_capacity);
  text += fmt::format("prefetch_steps = {}\n", options.prefetch_steps);
  text += fmt::format("idle_normal = {}\n", Milliseconds(options.idle_normal));
  text += fmt::format("idle_critical = {}\n", Milliseconds(options.idle_critical));
  text += fmt::format("dwell = {}\n", Milliseconds(options.dwell));
  text += fmt::format("emergency_time = {}\n", Milliseconds(options.emergency_time));
  if (options.ttl) text += fmt::format("ttl = {}\n", Milliseconds(*options.ttl));
  return text;
}

Daemon::Daemon(Child child, std::string socket, std::uint16_t port, std::uint16_t http_port)
    : child_(std::move(child)), socket_(std::move(socket)), port_(port), http_port_(http_port) {}

Daemon::~Daemon() { Stop(); }

Result<std::unique_ptr<Daemon>> Daemon::Start(const DaemonOptions& options) {
  for (int i = 1;; ++i) {
    Result<std::unique_ptr<Daemon>> daemon = TryStart(options);
    if (daemon || i == kTries || !SaysChosenPortIsTaken(daemon.error().message, options)) {
      return daemon;
    }
  }
}

Result<std::unique_ptr<Daemon>> Daemon::TryStart(const DaemonOptions& options) {
  const Result<std::uint16_t> port =
      options.port ? Result<std::uint16_t>(*options.port) : AnyPort();
  if (!port) return port.error();
  std::optional<std::uint16_t> http_port = options.http_port;
  if (!http_port) http_port = FreePort(kUsualHttpPort);
  if (!http_port) {
    const Result<std::uint16_t> any = AnyPort();
    if (!any) return any.error();
    http_port = *any;
  }
  const std::string socket =
      options.socket.empty() ? options.folder + "/spillway.sock" : options.socket;
  const std::string config = options.folder + "/spillwayd.toml";
  if (Status written = WriteText(config, DaemonToml(options.cache)); !written) {
    return written.error();
  }
  Result<Child> child =
      Child::Start({options.program, "--config", config, "--socket", socket, "--port",
                    fmt::to_string(*port), "--http-port", fmt::to_string(*http_port)});
  if (!child) return child.error();
  std::unique_ptr<Daemon> daemon(new Daemon(std::move(*child), socket, *port, *http_port));
  if (Status ready = daemon->WaitUntilReady(); !ready) return ready.error();
  return daemon;
}

// On its socket first: until it answers there, its port of HTTP may be another's.
Status Daemon::AnswersWithin(Duration time) const {
  Result<Client> client = Client::Connect(socket_, time);
  if (!client) return client.error();
  const Result<Reply> pong = client->Ask({"PING"});
  if (!pong) return pong.error();
  const Result<std::string> ready = HttpClient(http_port_, time).Get("/readyz");
  return ready ? Status() : ready.error();
}

Status Daemon::WaitUntilReady() {
  constexpr Duration kWithin = std::chrono::seconds(2);
  std::string why = "it did not listen";
  for (int waited = 0; waited < kReadyMs; waited += kLookMs) {
    if (WhyGone(); child_.Ended()) {
      const int status = *child_.Ended();
      const bool argument = WIFEXITED(status) && WEXITSTATUS(status) == 2;
      return Error{argument ? Code::kInvalidArgument : Code::kUnavailable,
                   last_words_.empty() ? fmt::format("spillwayd ended ({})", HowEnded(status))
                                       : last_words_};
    }
    const Status ready = AnswersWithin(kWithin);
    if (ready) return {};
    why = ready.error().message;
    ::poll(nullptr, 0, kLookMs);
  }
  return Error{Code::kDeadline,
               fmt::format("spillwayd is not ready after {} s: {}", kReadyMs / 1000, why)};
}

void Daemon::Hear() {
  constexpr std::string_view kName = "spillwayd: ";
  child_.Hear([&](std::string_view line) {
    if (line.starts_with(kName)) line.remove_prefix(kName.size());
    last_words_ = line;
  });
}

std::string Daemon::WhyGone() {
  const std::optional<int> status = child_.Ended();
  Hear();
  if (!status) return {};
  return fmt::format("spillwayd (pid {}) ended by itself, {}; its last words: {}", pid(),
                     HowEnded(*status), last_words_.empty() ? "none" : Printable(last_words_, 200));
}

int Daemon::Stop() {
  child_.Ask();
  for (int waited = 0; waited < kStopMs && !child_.Ended(); waited += kLookMs) {
    Hear();  // One that can't speak can't end.
    ::poll(nullptr, 0, kLookMs);
  }
  child_.Kill();
  return *child_.Ended();
}

}  // namespace spillway::demo
