// A Client speaks the Redis protocol to a daemon: words out, replies in. Replies
// are texts, numbers, nothing, errors, and lists of these; what else might come is
// an error, since nothing the demo asks for is answered so.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "demo/socket.h"
#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway::demo {

struct Reply {
  enum class Kind : std::uint8_t { kText, kNumber, kNothing, kError, kList };
  Kind kind = Kind::kNothing;
  std::string text;  // Of an error, too.
  std::int64_t number = 0;
  std::vector<Reply> items;

  // The item behind the text `name`, where a list is a map; null: there is none.
  const Reply* Named(std::string_view name) const;
};

// One thread at a time. After an error of its own (not one that the daemon tells)
// it is out of step: make another.
class Client {
 public:
  static constexpr Duration kWithin = std::chrono::seconds(15);

  static Result<Client> Connect(const std::string& socket, Duration within = kWithin);
  explicit Client(Socket socket) : socket_(std::move(socket)) {}

  // Several may be sent before the first reply is received.
  Status Send(std::span<const std::string_view> words);
  Result<Reply> Receive();

  // Both. What the daemon says to be wrong is an error here: kBlocked for a write
  // that no tier may take, else kUnavailable.
  Result<Reply> Ask(std::span<const std::string_view> words);
  Result<Reply> Ask(std::initializer_list<std::string_view> words) {
    return Ask(std::span(words.begin(), words.size()));
  }

 private:
  Result<Reply> ReceiveOne();

  Socket socket_;
};

}  // namespace spillway::demo
