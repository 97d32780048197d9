// SPDX-License-Identifier: Apache-2.0
// Damaged HTTP requests, through the server's parser with its limits, and on to the Api. For any
// bytes: no crash, an answer with a status, only the open pages without the password, and no
// command without it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http.hpp>
#include <fmt/format.h>

#include "http/api.h"
#include "http/guard.h"
#include "http/http_server.h"
#include "http/stream.h"

using namespace spillway;
namespace beast = boost::beast;

namespace {

void Require(bool holds) {
  if (!holds) std::abort();
}

constexpr std::string_view kSecret = "kept-5f2b91";

struct World {
  http::Feed feed;
  std::unique_ptr<Cache> cache;
  std::unique_ptr<http::Api> open;
  std::unique_ptr<http::Api> guarded;

  World() {
    Options options;
    options.capacity = kMiB;
    options.on_event = [this](const Event& event) { feed.OnEvent(event); };
    auto opened = Cache::Open(options);
    Require(opened.has_value());
    cache = std::move(*opened);
    http::Api::Settings settings;
    settings.cache = cache.get();
    settings.feed = &feed;
    open = std::make_unique<http::Api>(settings);
    settings.password = [] { return std::string("a password nobody guesses"); };
    guarded = std::make_unique<http::Api>(settings);
    Fill();
  }
  void Fill() const {
    for (int i = 0; i < 3; ++i) {
      const std::string key = fmt::format("context:{}", i);
      SetOptions set;
      set.tokens = i;
      Require(cache->Set(key, Source(key.data(), key.size()), set).has_value());
    }
    Require(cache->Set(kSecret, Source(kSecret.data(), kSecret.size()), {}).has_value());
  }
};

World& TheWorld() {
  static World world;
  return world;
}

std::string_view View(beast::string_view text) { return {text.data(), text.size()}; }

// Whether the request itself contains `what`, so that an answer may repeat it.
bool Says(const http::Request& request, std::string_view what) {
  if (request.target.find(what) != std::string_view::npos) return true;
  if (request.method.find(what) != std::string_view::npos) return true;
  if (request.body.find(what) != std::string_view::npos) return true;
  const auto target = http::Target::Parse(request.target);
  if (!target) return false;
  if (target->path.find(what) != std::string::npos) return true;
  for (const auto& [name, value] : target->query) {
    if (name.find(what) != std::string::npos || value.find(what) != std::string::npos) return true;
  }
  return false;
}

void Ask(const http::Request& request) {
  const World& world = TheWorld();
  http::Answer answer = world.guarded->Handle(request);
  Require(answer.status >= 200 && answer.status < 600);
  // The password is unknown to the fuzzer: nothing stored may be shown, and nothing may be changed.
  if (request.method != "GET" && request.method != "HEAD") {
    Require(!answer.later && answer.status >= 400);
  }
  Require(answer.body.find(kSecret) == std::string::npos || Says(request, kSecret));
  answer = world.open->Handle(request);
  Require(answer.status >= 200 && answer.status < 600);
  if (answer.later) {
    const http::Answer made = answer.later();
    Require(made.status >= 200 && made.status < 600);
    world.Fill();  // The request may have dropped an entry.
  }
  if (answer.live) {
    Require(answer.live->every > Duration::zero());
    Require(!world.open->Step(answer.live.get()).empty());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const http::HttpSettings limits;
  beast::http::request_parser<beast::http::string_body> parser;
  parser.header_limit(limits.header_max);
  parser.body_limit(limits.body_max);
  parser.eager(true);
  beast::error_code error;
  std::size_t used = 0;
  while (used < size && !parser.is_done()) {
    const std::size_t step = parser.put(boost::asio::const_buffer(data + used, size - used), error);
    Require(step <= size - used);
    if (error) return 0;
    if (step == 0) break;
    used += step;
  }
  if (!parser.is_done()) return 0;
  const auto& message = parser.get();
  const std::string origin(View(message[beast::http::field::origin]));
  http::Request request{.method = View(message.method_string()),
                        .target = View(message.target()),
                        .host = View(message[beast::http::field::host]),
                        .origin = origin,
                        .authorization = View(message[beast::http::field::authorization]),
                        .content_type = View(message[beast::http::field::content_type]),
                        .accept_encoding = View(message[beast::http::field::accept_encoding]),
                        .if_none_match = View(message[beast::http::field::if_none_match]),
                        .body = message.body()};
  Ask(request);
  // The same with a valid host: this reaches code that a wrong host hides.
  request.host = "localhost";
  request.origin = {};
  Ask(request);
  http::IsOwnOrigin(origin, View(message[beast::http::field::host]));
  return 0;
}
