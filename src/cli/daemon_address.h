// SPDX-License-Identifier: Apache-2.0
// The address of the daemon that a command talks to, and the password, given the same way to every
// command. --url or $SPILLWAY_URL names one of the daemon's sockets; a command that needs the other
// one asks the daemon for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "spillway/result.h"
#include "spillway/units.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace spillway {

struct DaemonAddress {
  enum class Way : std::uint8_t { kRedis, kUnix, kHttp };
  Way way = Way::kRedis;
  std::string host = "127.0.0.1";
  std::uint16_t port = 7379;
  std::string socket;    // For kUnix.
  std::string password;  // Empty: none is sent.
  // Where the password is from, as in "--password-file". Empty: there is none.
  std::string password_from;
  std::optional<int> database;
  bool named = false;  // Named by the caller. False: it is the default address.
  Duration within = std::chrono::seconds(5);

  std::string Text() const;  // For messages; without the password.
};

// Parses redis://[:PASSWORD@]HOST[:PORT][/DATABASE], unix://[:PASSWORD@]/PATH or
// http://[:PASSWORD@]HOST[:PORT]; without a scheme it is HTTP. Characters with a meaning in URLs
// must be percent-encoded. Errors do not show the password.
Result<DaemonAddress> ParseDaemonUrl(std::string_view url);

// The error if a daemon requires a password or refuses ours.
Error PasswordNeeded(const DaemonAddress& address);

// The command-line options for the address.
struct DaemonOptions {
  std::string url;
  std::string password_file;
  // Old names of --url.
  std::string socket;
  std::string host;
  std::string port;

  // Adds --url and --password-file. `way` is the protocol the command itself uses.
  void AddTo(CLI::App* app, DaemonAddress::Way way);
  // Adds --socket, --host and --port to commands that had them.
  void AddOldNames(CLI::App* app);
  // The address from --url, else $SPILLWAY_URL. The password is from --password-file, else from the
  // URL, else $SPILLWAY_PASSWORD.
  Result<DaemonAddress> Read() const;

 private:
  DaemonAddress::Way way_ = DaemonAddress::Way::kRedis;
};

}  // namespace spillway
