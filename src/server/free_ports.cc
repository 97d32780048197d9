// SPDX-License-Identifier: Apache-2.0
#include "server/free_ports.h"

#include <sys/un.h>

#include <cstdint>
#include <string>
#include <string_view>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <fmt/format.h>

namespace spillway::server {

namespace {

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;

Status CheckPort(const std::string& bind, std::uint64_t port, std::string_view setting) {
  if (port == 0) return {};
  boost::system::error_code error;
  const asio::ip::address address =
      asio::ip::make_address(bind == "localhost" ? "127.0.0.1" : bind, error);
  if (error) return {};  // What is wrong with it is said where it is opened.
  asio::io_context io;
  Tcp::acceptor acceptor(io);
  const Tcp::endpoint endpoint(address, static_cast<std::uint16_t>(port));
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(Tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  // Two sockets may be bound to one port as long as neither listens.
  if (!error) acceptor.listen(1, error);
  if (!error) return {};
  const std::string where = address.is_v6() ? fmt::format("[{}]:{}", address.to_string(), port)
                                            : fmt::format("{}:{}", address.to_string(), port);
  const std::string why =
      error == asio::error::address_in_use
          ? "another process listens on it, perhaps another spillwayd; choose another port"
          : error.message() + "; another port may do";
  return Error{Code::kUnavailable, fmt::format("{}: {} ({})", where, why, setting)};
}

// A socket that answers is another daemon's; one that does not is replaced when ours is opened.
Status CheckSocket(const std::string& path) {
  if (path.empty() || path.size() >= sizeof(sockaddr_un{}.sun_path)) return {};
  asio::io_context io;
  asio::local::stream_protocol::socket trial(io);
  boost::system::error_code error;
  trial.connect(asio::local::stream_protocol::endpoint(path), error);
  if (error) return {};
  return Error{
      Code::kUnavailable,
      fmt::format("server.socket: another process listens on {}; choose another path (--socket)",
                  path)};
}

}  // namespace

Status CheckPorts(const Settings& settings) {
  if (Status ok = CheckPort(settings.bind, settings.port, "--port, server.port"); !ok) return ok;
  if (Status ok =
          CheckPort(settings.http_bind, settings.http_port, "--http-port, server.http_port");
      !ok) {
    return ok;
  }
  return CheckSocket(settings.socket);
}

}  // namespace spillway::server
