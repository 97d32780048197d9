// Tells a daemon's step graph what happens, over a connection of its own.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "demo/client.h"

namespace spillway::demo {

// From any thread.
class GraphTeller {
 public:
  explicit GraphTeller(std::string socket) : socket_(std::move(socket)) {}

  // The daemon is another one.
  void Renew() {
    const std::lock_guard lock(mutex_);
    client_.reset();
  }

  Status Tell(const std::vector<std::string_view>& words) {
    const std::lock_guard lock(mutex_);
    if (!client_) {
      Result<Client> connected = Client::Connect(socket_);
      if (!connected) return connected.error();
      client_ = std::move(*connected);
    }
    // A hint that was refused is no reason to connect anew; an answer that did
    // not come is.
    if (Status sent = client_->Send(words); !sent) return Lost(sent.error());
    const Result<Reply> reply = client_->Receive();
    if (!reply) return Lost(reply.error());
    if (reply->kind == Reply::Kind::kError) return Error{Code::kInvalidArgument, reply->text};
    return {};
  }

 private:
  Status Lost(const Error& error) {
    client_.reset();
    return error;
  }

  const std::string socket_;
  std::mutex mutex_;
  std::optional<Client> client_;  // Guarded by mutex_.
};

}  // namespace spillway::demo
