// SPDX-License-Identifier: Apache-2.0
#include "serversim/resp.h"

#include <charconv>

#include <fmt/format.h>

#include "sim/rng.h"

namespace spillway::serversim {

namespace {

struct Head {
  char kind = 0;
  std::int64_t number = 0;
  std::size_t bytes = 0;  // With its line end; 0: not whole.
};

Head HeadOf(std::string_view bytes) {
  const std::size_t end = bytes.find("\r\n");
  if (end == std::string_view::npos || end == 0) return {};
  Head head{.kind = bytes[0], .bytes = end + 2};
  std::from_chars(bytes.data() + 1, bytes.data() + end, head.number);
  return head;
}

}  // namespace

std::string Request(const Words& words) {
  std::string request = fmt::format("*{}\r\n", words.size());
  for (const std::string& word : words) request += Bulk(word);
  return request;
}

std::string Bulk(std::string_view bytes) {
  std::string bulk = fmt::format("${}\r\n", bytes.size());
  bulk += bytes;
  return bulk += "\r\n";
}

std::string Integer(std::int64_t number) { return fmt::format(":{}\r\n", number); }

std::string Null(int protocol) { return protocol == 3 ? "_\r\n" : "$-1\r\n"; }

std::size_t ReplyBytes(std::string_view bytes) {
  const Head head = HeadOf(bytes);
  if (head.bytes == 0) return 0;
  switch (head.kind) {
    case '+':
    case '-':
    case ':':
    case '_':
    case ',':
    case '#':
      return head.bytes;
    case '$':
    case '=': {
      if (head.number < 0) return head.bytes;
      const std::size_t all = head.bytes + static_cast<std::size_t>(head.number) + 2;
      return bytes.size() >= all && bytes.substr(all - 2, 2) == "\r\n" ? all : 0;
    }
    case '*':
    case '~':
    case '%': {
      std::size_t at = head.bytes;
      for (std::int64_t left = head.number * (head.kind == '%' ? 2 : 1); left > 0; --left) {
        const std::size_t one = ReplyBytes(bytes.substr(at));
        if (one == 0) return 0;
        at += one;
      }
      return at;
    }
    default:
      return 0;
  }
}

std::optional<std::vector<std::string_view>> Elements(std::string_view reply) {
  const Head head = HeadOf(reply);
  if (head.bytes == 0 || (head.kind != '*' && head.kind != '~' && head.kind != '%')) return {};
  std::vector<std::string_view> elements;
  std::size_t at = head.bytes;
  for (std::int64_t left = head.number * (head.kind == '%' ? 2 : 1); left > 0; --left) {
    const std::size_t one = ReplyBytes(reply.substr(at));
    if (one == 0) return {};
    elements.push_back(reply.substr(at, one));
    at += one;
  }
  if (at != reply.size()) return {};
  return elements;
}

std::optional<std::int64_t> NumberOf(std::string_view reply) {
  const Head head = HeadOf(reply);
  if (head.kind != ':' || head.bytes != reply.size()) return {};
  return head.number;
}

std::uint64_t DigestOf(std::string_view reply, bool says_words) {
  std::uint64_t digest = 0;
  const auto add = [&](std::string_view text) {
    digest = sim::Mix(digest ^ text.size());
    for (const char c : text.substr(0, 256)) {
      digest = sim::Mix(digest ^ static_cast<unsigned char>(c));
    }
  };
  while (!reply.empty()) {
    const Head head = HeadOf(reply);
    if (head.bytes == 0) return sim::Mix(digest);
    const bool aggregate = head.kind == '*' || head.kind == '~' || head.kind == '%';
    const std::size_t all = aggregate ? head.bytes : ReplyBytes(reply);
    const std::string_view one = reply.substr(0, all == 0 ? head.bytes : all);
    if (head.kind == '-') {
      add(one.substr(0, one.find(' ')));
    } else if (says_words) {
      add(one.substr(0, 1));
      if (!aggregate || head.kind == '%') return digest;
    } else {
      add(one);
    }
    reply.remove_prefix(one.size());
  }
  return digest;
}

std::optional<std::string_view> TextOfBulk(std::string_view reply) {
  const Head head = HeadOf(reply);
  if (head.bytes == 0 || head.number < 0 || ReplyBytes(reply) != reply.size()) return {};
  if (head.kind == '$') return reply.substr(head.bytes, static_cast<std::size_t>(head.number));
  if (head.kind != '=' || head.number < 4) return {};
  return reply.substr(head.bytes + 4, static_cast<std::size_t>(head.number) - 4);
}

}  // namespace spillway::serversim
