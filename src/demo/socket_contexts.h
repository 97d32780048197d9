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
  // `raise`: what a socket brings enters host memory; from there it is asked up to the
  // GPU, which takes what it has room for.
  explicit SocketContexts(std::string socket, bool raise = false)
      : socket_(std::move(socket)), raise_(raise) {}

  Status Read(std::span<const std::string_view> keys, const Each& each) override;
  Result<std::size_t> Match(std::span<const std::string_view> keys) override;
  Status Set(const Block& block, std::string_view agent, std::span<const std::byte> bytes) override;
  Status Forget(std::span<const std::string_view> keys) override;
  void Renew() override { client_.reset(); }

 private:
  Status Connect();
  Status ReadAll(std::span<const std::string_view> keys, const Each& each);
  Result<Reply> Ask(std::span<const std::string_view> words);

  void Raise(std::span<const std::string_view> keys);

  const std::string socket_;
  const bool raise_;
  std::optional<Client> client_;
};

}  // namespace spillway::demo
