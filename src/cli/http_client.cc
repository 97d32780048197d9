// SPDX-License-Identifier: Apache-2.0
#include "cli/http_client.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"

namespace spillway {

namespace {

constexpr std::size_t kBodyMax = 16 * kMiB;
constexpr int kHeadersMax = 100;

std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

Error NotHttp(std::string_view line) {
  return Error{Code::kUnavailable,
               fmt::format("the answer is not a spillwayd's: '{}'", Printable(line, 60))};
}

}  // namespace

Result<std::string> HttpClient::Get(const std::string& target) {
  const bool fresh = !socket_;
  asks_for_password_ = false;
  Result<std::string> body = Try(target);
  if (body) return body;
  socket_.reset();
  if (fresh || asks_for_password_) return body;
  return Try(target);  // The server may have closed it because it was idle.
}

Result<std::string> HttpClient::Try(const std::string& target) {
  if (!socket_) {
    Result<Socket> connected = Socket::ConnectHost(address_.host, address_.port, within_);
    if (!connected) return connected.error();
    socket_ = std::move(*connected);
  }
  const std::string who = address_.password.empty()
                              ? std::string()
                              : fmt::format("Authorization: Bearer {}\r\n", address_.password);
  const bool v6 = address_.host.find(':') != std::string::npos;
  Status sent = socket_->SendAll(fmt::format("GET {} HTTP/1.1\r\nHost: {}{}{}:{}\r\n{}\r\n", target,
                                             v6 ? "[" : "", address_.host, v6 ? "]" : "",
                                             address_.port, who));
  if (!sent) return sent.error();
  const Result<std::string> status = socket_->ReadLine();
  if (!status) return status.error();
  if (!status->starts_with("HTTP/1.1 ")) return NotHttp(*status);
  std::optional<std::size_t> length;
  for (int i = 0; i < kHeadersMax; ++i) {
    const Result<std::string> header = socket_->ReadLine();
    if (!header) return header.error();
    if (header->empty()) break;
    const std::string name = Lower(*header);
    constexpr std::string_view kLength = "content-length:";
    if (!name.starts_with(kLength)) continue;
    const std::size_t from = name.find_first_not_of(' ', kLength.size());
    if (from == name.npos) return NotHttp(*header);
    std::size_t bytes = 0;
    const auto [stop, error] =
        std::from_chars(name.data() + from, name.data() + name.size(), bytes);
    if (error != std::errc() || bytes > kBodyMax) return NotHttp(*header);
    length = bytes;
  }
  if (!length) return NotHttp("an answer without a length");
  Result<std::string> body = socket_->ReadBytes(*length);
  if (!body || status->substr(9, 3) == "200") return body;
  asks_for_password_ = status->substr(9, 3) == "401";
  return Error{Code::kUnavailable,
               fmt::format("{}: {}: {}", target, Printable(*status, 40), Printable(*body, 120))};
}

}  // namespace spillway
