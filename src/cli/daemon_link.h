// SPDX-License-Identifier: Apache-2.0
// A DaemonLink talks to a running spillwayd over the Redis protocol: it sends words and reads one
// reply, each within a time limit.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/socket.h"
#include "cli/daemon_address.h"
#include "cli/http_client.h"
#include "spillway/result.h"

namespace spillway {

// One connection. Not thread-safe.
class DaemonLink {
 public:
  // Unavailable: no daemon listens there, or it requires a password; the message names the address
  // and what would help. `address` must not be HTTP's.
  static Result<DaemonLink> Open(const DaemonAddress& address);
  // Sends a command. Returns the text of a simple, bulk or integer reply; an error reply is an
  // error.
  Result<std::string> Ask(const std::vector<std::string_view>& words);
  // The same for a reply that is a list of such.
  Result<std::vector<std::string>> AskList(const std::vector<std::string_view>& words);

 private:
  DaemonLink(Socket socket, DaemonAddress address)
      : socket_(std::move(socket)), address_(std::move(address)) {}
  Status LogIn();
  Status Send(const std::vector<std::string_view>& words);
  Result<std::string> Line();
  // The text of a reply that begins with `line`; reads the rest of a bulk reply.
  Result<std::string> Text(const std::string& line);

  Socket socket_;
  DaemonAddress address_;
};

// The daemon's HTTP address: the address itself, or the one the daemon tells over the Redis
// protocol.
Result<DaemonAddress> HttpAddressOf(const DaemonAddress& address);
// Converts an HTTP address for HttpClient.
HttpAddress ForHttpClient(const DaemonAddress& address);
// The body of a 200 answer. A daemon that requires a password is an error that says so.
Result<std::string> GetByHttp(const DaemonAddress& address, const std::string& target);

}  // namespace spillway
