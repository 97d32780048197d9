#include "demo/socket_contexts.h"

#include <utility>
#include <vector>

#include <fmt/format.h>

namespace spillway::demo {

namespace {

std::string_view TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<std::string_view> Words(std::string_view command,
                                    std::span<const std::string_view> keys) {
  std::vector<std::string_view> words{command};
  words.insert(words.end(), keys.begin(), keys.end());
  return words;
}

// What SPILL.GET says of one key.
Result<Found> FoundIn(const Reply& reply) {
  if (reply.kind == Reply::Kind::kNothing) return Found{};
  const Reply* const tokens = reply.Named("tokens");
  const Reply* const value = reply.Named("value");
  if (tokens == nullptr || value == nullptr) {
    return Error{Code::kUnavailable, "SPILL.GET: no tokens or no value in the reply" +
                                         (reply.text.empty() ? "" : ": " + reply.text)};
  }
  const auto* const data = reinterpret_cast<const std::byte*>(value->text.data());
  return Found{.there = true, .tokens = tokens->number, .bytes = {data, value->text.size()}};
}

}  // namespace

Status SocketContexts::Connect() {
  if (client_) return {};
  Result<Client> connected = Client::Connect(socket_);
  if (!connected) return connected.error();
  client_ = std::move(*connected);
  return {};
}

Status SocketContexts::Read(std::span<const std::string_view> keys, const Each& each) {
  if (Status ok = Connect(); !ok) return ok;
  const Status read = ReadAll(keys, each);
  if (!read) client_.reset();  // Replies that nobody took may be on their way.
  if (read) Raise(keys);
  return read;
}

// Where that fails, they are where they were.
void SocketContexts::Raise(std::span<const std::string_view> keys) {
  if (raise_ && !keys.empty()) (void)Ask(Words("SPILL.PREFETCH", keys));
}

// All are asked for at once: what is not there comes up while others are sent.
Status SocketContexts::ReadAll(std::span<const std::string_view> keys, const Each& each) {
  for (const std::string_view key : keys) {
    const std::string_view words[] = {"SPILL.GET", key};
    if (Status sent = client_->Send(words); !sent) return sent;
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const Result<Reply> reply = client_->Receive();
    if (!reply) return reply.error();
    const Result<Found> found = FoundIn(*reply);
    if (!found) return found.error();
    each(i, *found);
  }
  return {};
}

Result<Reply> SocketContexts::Ask(std::span<const std::string_view> words) {
  if (Status ok = Connect(); !ok) return ok.error();
  Result<Reply> reply = client_->Ask(words);
  if (!reply && reply.error().code != Code::kBlocked) client_.reset();
  return reply;
}

Result<std::size_t> SocketContexts::Match(std::span<const std::string_view> keys) {
  const Result<Reply> reply = Ask(Words("SPILL.MATCH", keys));
  if (!reply) return reply.error();
  return static_cast<std::size_t>(reply->number);
}

Status SocketContexts::Set(const Block& block, std::string_view agent,
                           std::span<const std::byte> bytes) {
  const std::string tokens = fmt::to_string(block.tokens);
  std::vector<std::string_view> words{"SPILL.SET", block.key, TextOf(bytes), "TOKENS",
                                      tokens,      "AGENT",   agent};
  if (!block.parent.empty()) words.insert(words.end(), {"PARENT", block.parent});
  const Result<Reply> reply = Ask(words);
  if (!reply) return reply.error();
  const std::string_view key = block.key;
  Raise({&key, 1});
  return {};
}

Status SocketContexts::Forget(std::span<const std::string_view> keys) {
  if (keys.empty()) return {};
  const Result<Reply> reply = Ask(Words("UNLINK", keys));
  return reply ? Status() : reply.error();
}

}  // namespace spillway::demo
