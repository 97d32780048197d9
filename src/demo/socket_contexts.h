// Contexts in a daemon, by its socket: SPILL.GET, SPILL.MATCH, SPILL.SET with
// tokens, agent and parent, UNLINK. A connection of its own, made when it is first
// needed and anew after a failure.
#pragma once

#include <optional>
#include <string>

#include "demo/client.h"
#include "demo/contexts.h"

namespace spillway::demo {

class SocketContexts final : public Contexts {
 public:
  explicit SocketContexts(std::string socket) : socket_(std::move(socket)) {}

  Status Read(std::span<const std::string_view> keys, const Each& each) override;
  Result<std::size_t> Match(std::span<const std::string_view> keys) override;
  Status Set(const Block& block, std::string_view agent, std::span<const std::byte> bytes) override;
  Status Forget(std::span<const std::string_view> keys) override;
  void Renew() override { client_.reset(); }

 private:
  Status Connect();
  Status ReadAll(std::span<const std::string_view> keys, const Each& each);
  Result<Reply> Ask(std::span<const std::string_view> words);

  const std::string socket_;
  std::optional<Client> client_;
};

}  // namespace spillway::demo
