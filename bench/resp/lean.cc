// SPDX-License-Identifier: Apache-2.0
// resp_lean: the minimal client and server for large values, to compare spillwayd with.
//
//   resp_lean serve SOCKET BYTES          answers from one fixed buffer
//   resp_lean get SOCKET BYTES SECONDS    reads and discards; prints MB/s
//   resp_lean set SOCKET BYTES SECONDS    writes one buffer again and again
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr std::size_t kDiscard = 1 << 20;

int Open(const std::string& path, bool listening) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  const auto* const to = reinterpret_cast<const sockaddr*>(&address);
  if (listening) {
    unlink(path.c_str());
    if (bind(fd, to, sizeof address) != 0 || listen(fd, 16) != 0) std::exit(1);
    return fd;
  }
  for (int i = 0; i < 500; ++i) {
    if (connect(fd, to, sizeof address) == 0) return fd;
    usleep(10'000);
  }
  std::exit(1);
}

void SendAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) std::exit(1);
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

// Reads and discards that many bytes; returns the first.
char Discard(int fd, std::size_t bytes, std::vector<char>* buffer) {
  char first = 0;
  bool any = false;
  while (bytes > 0) {
    const ssize_t got = recv(fd, buffer->data(), std::min(bytes, buffer->size()), 0);
    if (got <= 0) std::exit(1);
    if (!any) first = (*buffer)[0];
    any = true;
    bytes -= static_cast<std::size_t>(got);
  }
  return first;
}

std::string Head(std::string_view name, std::string_view key) {
  std::string out = name == "GET" ? "*2\r\n$3\r\nGET\r\n" : "*3\r\n$3\r\nSET\r\n";
  return out + "$" + std::to_string(key.size()) + "\r\n" + std::string(key) + "\r\n";
}

// One client at a time; understands GET k and SET k v of the agreed size.
int Serve(const std::string& path, std::size_t bytes) {
  const std::string value(bytes, 'v');
  const std::string reply = "$" + std::to_string(bytes) + "\r\n" + value + "\r\n";
  const std::size_t get = Head("GET", "k").size();
  const std::size_t rest =
      Head("SET", "k").size() - get + ("$" + std::to_string(bytes) + "\r\n").size() + bytes + 2;
  std::vector<char> buffer(kDiscard);
  const int listening = Open(path, true);
  for (;;) {
    const int fd = accept(listening, nullptr, nullptr);
    for (;;) {
      std::size_t have = 0;
      while (have < get) {
        const ssize_t got = recv(fd, buffer.data() + have, get - have, 0);
        if (got <= 0) break;
        have += static_cast<std::size_t>(got);
      }
      if (have < get) break;
      if (buffer[1] == '2') {
        SendAll(fd, reply);
      } else {
        Discard(fd, rest, &buffer);
        SendAll(fd, "+OK\r\n");
      }
    }
    close(fd);
  }
}

int Drive(bool get, const std::string& path, std::size_t bytes, double seconds) {
  const int fd = Open(path, false);
  std::vector<char> buffer(kDiscard);
  const std::string value(bytes, 'v');
  const std::string set = Head("SET", "k") + "$" + std::to_string(bytes) + "\r\n" + value + "\r\n";
  SendAll(fd, set);
  if (Discard(fd, 5, &buffer) != '+') return 1;
  const std::string ask = Head("GET", "k");
  const std::size_t answer = ("$" + std::to_string(bytes) + "\r\n").size() + bytes + 2;
  std::size_t moved = 0;
  const auto began = std::chrono::steady_clock::now();  // real world: this is a bench
  std::chrono::duration<double> took{};
  while (took.count() < seconds) {
    SendAll(fd, get ? ask : set);
    if (Discard(fd, get ? answer : 5, &buffer) != (get ? '$' : '+')) return 1;
    moved += bytes;
    took = std::chrono::steady_clock::now() - began;
  }
  std::printf("%.0f\n", static_cast<double>(moved) / took.count() / 1e6);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const std::string_view what = argv[1];
  const std::size_t bytes = std::strtoull(argv[3], nullptr, 10);
  if (what == "serve") return Serve(argv[2], bytes);
  return Drive(what == "get", argv[2], bytes, argc > 4 ? std::atof(argv[4]) : 1.0);
}
