// SPDX-License-Identifier: Apache-2.0
#include "cli/daemon_link.h"

#include <charconv>
#include <utility>

#include <fmt/format.h>

namespace spillway {

namespace {

constexpr std::size_t kReplyMax = std::size_t{256} << 20U;
constexpr std::size_t kListMax = 10'000;

Error NotOurs() {
  return {Code::kUnavailable, "the program that answers there is not a spillwayd"};
}

bool ReadCount(const std::string& text, std::size_t* count) {
  const auto [stop, wrong] = std::from_chars(text.data(), text.data() + text.size(), *count);
  return wrong == std::errc() && stop == text.data() + text.size();
}

Result<Socket> Connect(const DaemonAddress& address) {
  Result<Socket> connected = address.socket.empty()
                                 ? Socket::ConnectHost(address.host, address.port, address.within)
                                 : Socket::ConnectUnix(address.socket, address.within);
  if (connected) return connected;
  return Error{Code::kUnavailable,
               fmt::format("no spillwayd answers at {}; start one, or say where it is (--url, "
                           "$SPILLWAY_URL)",
                           connected.error().message)};
}

Error FromDaemon(const Error& error) { return {error.code, "the daemon: " + error.message}; }

}  // namespace

Result<DaemonLink> DaemonLink::Open(const DaemonAddress& address) {
  Result<Socket> connected = Connect(address);
  if (!connected) return connected.error();
  DaemonLink link(std::move(*connected), address);
  if (Status in = link.LogIn(); !in) return in.error();
  return link;
}

Status DaemonLink::LogIn() {
  if (address_.password.empty()) return {};
  const Result<std::string> let_in = Ask({"AUTH", address_.password});
  // $SPILLWAY_PASSWORD is sent to every daemon, also to one without a password.
  constexpr std::string_view kNotAsked = "without any password";
  if (let_in || let_in.error().message.find(kNotAsked) != std::string::npos) return {};
  return let_in.error();
}

Status DaemonLink::Send(const std::vector<std::string_view>& words) {
  std::string request = fmt::format("*{}\r\n", words.size());
  for (const std::string_view word : words) {
    request += fmt::format("${}\r\n{}\r\n", word.size(), word);
  }
  const Status sent = socket_.SendAll(request);
  return sent ? sent : FromDaemon(sent.error());
}

Result<std::string> DaemonLink::Line() {
  Result<std::string> line = socket_.ReadLine();
  if (!line) return FromDaemon(line.error());
  return line;
}

Result<std::string> DaemonLink::Ask(const std::vector<std::string_view>& words) {
  if (Status sent = Send(words); !sent) return sent.error();
  const Result<std::string> line = Line();
  if (!line) return line.error();
  return Text(*line);
}

Result<std::vector<std::string>> DaemonLink::AskList(const std::vector<std::string_view>& words) {
  if (Status sent = Send(words); !sent) return sent.error();
  const Result<std::string> line = Line();
  if (!line) return line.error();
  std::size_t count = 0;
  if (!line->starts_with('*')) {
    const Result<std::string> text = Text(*line);
    return text ? NotOurs() : text.error();
  }
  if (!ReadCount(line->substr(1), &count) || count > kListMax) return NotOurs();
  std::vector<std::string> list;
  for (std::size_t i = 0; i < count; ++i) {
    const Result<std::string> head = Line();
    if (!head) return head.error();
    Result<std::string> text = Text(*head);
    if (!text) return text.error();
    list.push_back(std::move(*text));
  }
  return list;
}

Result<std::string> DaemonLink::Text(const std::string& line) {
  const char kind = line.empty() ? '\0' : line.front();
  const std::string rest = line.empty() ? std::string() : line.substr(1);
  if (kind == '+' || kind == ':') return rest;
  if (kind == '-') {
    if (rest.starts_with("NOAUTH") || rest.starts_with("WRONGPASS")) {
      return PasswordNeeded(address_);
    }
    return Error{Code::kUnavailable, "the daemon answered: " + rest};
  }
  std::size_t bytes = 0;
  if (kind != '$' || !ReadCount(rest, &bytes) || bytes > kReplyMax) return NotOurs();
  Result<std::string> text = socket_.ReadBytes(bytes + 2);
  if (!text) return FromDaemon(text.error());
  text->resize(bytes);
  return text;
}

Result<DaemonAddress> HttpAddressOf(const DaemonAddress& address) {
  if (address.way == DaemonAddress::Way::kHttp) return address;
  Result<DaemonLink> link = DaemonLink::Open(address);
  if (!link) return link.error();
  const Result<std::vector<std::string>> said = link->AskList({"CONFIG", "GET", "http_*"});
  if (!said) return said.error();
  DaemonAddress http = address;
  http.way = DaemonAddress::Way::kHttp;
  http.port = 0;
  std::string bind;
  for (std::size_t i = 0; i + 1 < said->size(); i += 2) {
    const std::string& name = (*said)[i];
    const std::string& value = (*said)[i + 1];
    if (name == "http_bind") bind = value;
    if (name != "http_port") continue;
    std::from_chars(value.data(), value.data() + value.size(), http.port);
  }
  if (http.port == 0) {
    return Error{Code::kUnavailable,
                 fmt::format("the spillwayd at {} has no HTTP (server.http_port = 0), and this "
                             "command needs it",
                             address.Text())};
  }
  if (address.way == DaemonAddress::Way::kUnix) {
    const bool any = bind == "0.0.0.0" || bind == "::" || bind.empty();
    http.host = any ? "127.0.0.1" : bind;
  }
  return http;
}

HttpAddress ForHttpClient(const DaemonAddress& address) {
  return {.host = address.host, .port = address.port, .password = address.password};
}

Result<std::string> GetByHttp(const DaemonAddress& address, const std::string& target) {
  HttpClient http(ForHttpClient(address), address.within);
  Result<std::string> body = http.Get(target);
  if (!body && http.asks_for_password()) return PasswordNeeded(address);
  return body;
}

}  // namespace spillway
