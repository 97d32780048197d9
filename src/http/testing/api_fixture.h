// SPDX-License-Identifier: Apache-2.0
// An Api over a small cache, with helpers that send requests as a client does.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "http/api.h"
#include "http/history.h"
#include "http/stream.h"

namespace spillway::http::testing {

class ApiTest : public ::testing::Test {
 protected:
  ApiTest() {
    Options options;
    options.capacity = 16 * kMiB;
    options.on_event = [this](const Event& event) { feed_.OnEvent(event); };
    cache_ = Cache::Open(std::move(options)).value();
    Api::Settings settings;
    settings.cache = cache_.get();
    settings.feed = &feed_;
    settings.password = [this] { return password_; };
    settings.not_ready = [this] { return not_ready_; };
    settings.metrics = [](Exposition* page) { page->Gauge("more", "More.", 1); };
    settings.files = kFiles;
    settings.history = &history_;
    settings.facts = [this] { return facts_; };
    api_ = std::make_unique<Api>(std::move(settings));
  }
  void Set(std::string_view key, std::string_view value, Tokens tokens = 1) {
    ASSERT_TRUE(cache_->Set(key, Source(value), {.tokens = tokens}));
  }
  Answer Ask(std::string_view method, std::string_view target, std::string_view body = {}) {
    Request request{.method = method, .target = target, .host = "localhost:1"};
    request.body = body;
    request.content_type = "application/json";
    request.authorization = authorization_;
    Answer answer = api_->Handle(request);
    return answer.later ? answer.later() : answer;
  }
  Answer Get(std::string_view target) { return Ask("GET", target); }
  nlohmann::json Read(std::string_view target) {
    const Answer answer = Get(target);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return nlohmann::json::parse(answer.body);
  }
  std::string ErrorOf(const Answer& answer, int status) {
    EXPECT_EQ(answer.status, status) << answer.body;
    return nlohmann::json::parse(answer.body).value("error", "");
  }
  std::vector<std::string> KeysOf(std::string_view target) {
    std::vector<std::string> keys;
    const nlohmann::json page = Read(target);
    for (const nlohmann::json& row : page["contexts"]) keys.push_back(row["key"]);
    return keys;
  }

  static constexpr std::array<File, 2> kFiles = {
      {{"/page", "text/html", "<p>", "zipped", "\"1\"", false},
       {"/assets/a-1.js", "text/javascript", "1", "", "\"2\"", true}}};

  Feed feed_;
  History history_;
  ServerFacts facts_;
  std::string password_;
  std::string authorization_;
  std::string not_ready_;
  std::unique_ptr<Cache> cache_;
  std::unique_ptr<Api> api_;
};

}  // namespace spillway::http::testing
