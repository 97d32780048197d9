#include "demo/client.h"

#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"

namespace spillway::demo {

namespace {

constexpr std::int64_t kBulkMax = std::int64_t{1} << 30;
constexpr std::int64_t kItemsMax = 1'000'000;

Error NotRedis(std::string_view line) {
  return Error{Code::kUnavailable,
               fmt::format("what answers is no spillwayd: '{}'", Printable(line, 40))};
}

bool ReadNumber(std::string_view text, std::int64_t* number) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && stop == text.data() + text.size();
}

}  // namespace

const Reply* Reply::Named(std::string_view name) const {
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    if (items[i].text == name) return &items[i + 1];
  }
  return nullptr;
}

Result<Client> Client::Connect(const std::string& socket, Duration within) {
  Result<Socket> connected = Socket::ConnectUnix(socket, within);
  if (!connected) return connected.error();
  return Client(std::move(*connected));
}

Status Client::Send(std::span<const std::string_view> words) {
  constexpr std::size_t kApart = 64 * kKiB;  // From here on a copy costs more than a call.
  std::string request = fmt::format("*{}\r\n", words.size());
  for (const std::string_view word : words) {
    request += fmt::format("${}\r\n", word.size());
    if (word.size() >= kApart) {
      if (Status sent = socket_.SendAll(std::exchange(request, {})); !sent) return sent;
      if (Status sent = socket_.SendAll(word); !sent) return sent;
    } else {
      request += word;
    }
    request += "\r\n";
  }
  return socket_.SendAll(request);
}

Result<Reply> Client::Receive() {
  Result<Reply> reply = ReceiveOne();
  if (!reply || reply->kind != Reply::Kind::kList) return reply;
  for (std::int64_t i = 0; i < reply->number; ++i) {
    Result<Reply> item = ReceiveOne();
    if (!item) return item;
    if (item->kind == Reply::Kind::kList) return NotRedis("a list in a list");
    reply->items.push_back(std::move(*item));
  }
  return reply;
}

// Of a list only its head: how many follow is its number.
Result<Reply> Client::ReceiveOne() {
  Result<std::string> line = socket_.ReadLine();
  if (!line) return line.error();
  if (line->empty()) return NotRedis(*line);
  Reply reply;
  const char kind = line->front();
  const std::string_view rest = std::string_view(*line).substr(1);
  if (kind == '+' || kind == '-') {
    reply.kind = kind == '+' ? Reply::Kind::kText : Reply::Kind::kError;
    reply.text = rest;
    return reply;
  }
  if (!ReadNumber(rest, &reply.number)) return NotRedis(*line);
  if (kind == ':') {
    reply.kind = Reply::Kind::kNumber;
    return reply;
  }
  if ((kind == '$' || kind == '*') && reply.number == -1) return reply;  // Nothing.
  if (kind == '*' && reply.number >= 0 && reply.number <= kItemsMax) {
    reply.kind = Reply::Kind::kList;
    return reply;
  }
  if (kind != '$' || reply.number < 0 || reply.number > kBulkMax) return NotRedis(*line);
  Result<std::string> bytes = socket_.ReadBytes(static_cast<std::size_t>(reply.number) + 2);
  if (!bytes) return bytes.error();
  if (!bytes->ends_with("\r\n")) return NotRedis("a text longer than was said");
  bytes->resize(bytes->size() - 2);
  reply.kind = Reply::Kind::kText;
  reply.text = std::move(*bytes);
  return reply;
}

Result<Reply> Client::Ask(std::span<const std::string_view> words) {
  if (Status sent = Send(words); !sent) return sent.error();
  Result<Reply> reply = Receive();
  if (!reply || reply->kind != Reply::Kind::kError) return reply;
  return Error{reply->text.starts_with("OOM ") ? Code::kBlocked : Code::kUnavailable, reply->text};
}

}  // namespace spillway::demo
