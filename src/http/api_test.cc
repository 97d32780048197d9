// SPDX-License-Identifier: Apache-2.0
#include "http/api.h"

#include <array>
#include <chrono>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/renamed.h"
#include "http/exposition.h"
#include "http/guard.h"
#include "http/target.h"
#include "http/testing/api_fixture.h"

namespace spillway::http {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Json = nlohmann::json;
using testing::ApiTest;

TEST_F(ApiTest, WhatIsDestroyedUnaskedIsCountedByCause) {
  const std::string value(6 << 20, 'v');  // Two fit into 16 MiB.
  for (const char* key : {"a", "b", "b", "c", "d"}) Set(key, value);
  const std::string page = Get("/metrics").body;
  EXPECT_THAT(page, HasSubstr("spillway_destroyed_total{reason=\"room\"} 2\n"));
  EXPECT_THAT(page, HasSubstr("spillway_destroyed_bytes_total{reason=\"room\"} 12582912\n"));
  EXPECT_THAT(page, HasSubstr("spillway_destroyed_total{reason=\"lost\"} 0\n"));
  EXPECT_THAT(page, Not(HasSubstr("spillway_destroyed_total{reason=\"replaced\"}")));
  EXPECT_EQ(Read("/api/v1/stats")["destroyed_by_reason"]["room"], 2);
}

// --- targets ---

TEST(Target, IsDecoded) {
  const auto target = Target::Parse("/a%20b/c?key=%00%ff+x&empty=&flag&key=second#gone");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->path, "/a b/c");
  EXPECT_EQ(target->Get("key"), std::string_view("\0\xff x", 4));
  EXPECT_EQ(target->Get("empty", "x"), "");
  EXPECT_EQ(target->Get("flag", "x"), "");
  EXPECT_EQ(target->Get("none", "x"), "x");
}

TEST(Target, NonsenseIsNone) {
  for (const std::string_view text :
       {"", "http://x/", "*", "/%", "/%4", "/%zz", "/a%00b", "/?x=%", "/?%q=1"}) {
    EXPECT_FALSE(Target::Parse(text)) << text;
  }
  EXPECT_TRUE(Target::Parse("/?&&"));
}

// --- access ---

TEST(RequestGuard, KnowsTheLoopbackAndTheNamesItWasGiven) {
  const std::vector<std::string> more = {"gpu7.Example"};
  for (const std::string_view host : {"localhost", "LOCALHOST:7380", "127.0.0.1:1", "[::1]:80",
                                      "[::1]", "gpu7.example:9", "GPU7.EXAMPLE"}) {
    EXPECT_TRUE(IsKnownHost(host, more)) << host;
  }
  for (const std::string_view host :
       {"", "evil.example", "localhost.evil.example", "[::1", "localhost:port", "127.0.0.1.evil",
        "127.0.0.1:80:80", "gpu7", "localhost:123456", "user@localhost"}) {
    EXPECT_FALSE(IsKnownHost(host, more)) << host;
  }
}

TEST(RequestGuard, APageMustBeFromHere) {
  EXPECT_TRUE(IsOwnOrigin("", "localhost:1"));
  EXPECT_TRUE(IsOwnOrigin("http://localhost:1", "localhost:1"));
  EXPECT_TRUE(IsOwnOrigin("https://LOCALHOST:1", "localhost:1"));
  for (const std::string_view origin :
       {"http://localhost:2", "http://localhost", "null", "file://", "http://evil/localhost:1"}) {
    EXPECT_FALSE(IsOwnOrigin(origin, "localhost:1")) << origin;
  }
}

TEST(RequestGuard, ThePasswordIsNeeded) {
  EXPECT_TRUE(IsAuthorized("Bearer s3cret", "s3cret"));
  EXPECT_TRUE(IsAuthorized("bearer  s3cret", "s3cret"));
  EXPECT_TRUE(IsAuthorized("Basic YW55Om9wZW4gc2VzYW1l", "open sesame"));  // any:open sesame
  for (const std::string_view wrong :
       {"", "Bearer", "Bearer ", "Bearer s3cre", "Bearer s3crets", "Bearer s3crets3cret",
        "Bearer S3CRET", "Basic s3cret", "Basic c2VjcmV0", "Basic !", "Digest s3cret", "s3cret"}) {
    EXPECT_FALSE(IsAuthorized(wrong, "s3cret")) << wrong;
  }
}

// --- metrics ---

TEST(Exposition, IsAsPrometheusReadsIt) {
  Exposition page;
  page.Counter("a_total", "All of a.", std::uint64_t{18446744073709551615U});
  page.Gauge("b", "Some b.");
  page.Sample(0.25, {{"of", "x\"\\\ny"}});
  page.Sample(-1, {{"of", "z"}, {"more", ""}});
  EXPECT_EQ(page.text(),
            "# HELP a_total All of a.\n# TYPE a_total counter\na_total 18446744073709551615\n"
            "# HELP b Some b.\n# TYPE b gauge\nb{of=\"x\\\"\\\\\\ny\"} 0.25\n"
            "b{of=\"z\",more=\"\"} -1\n");
}

TEST(Exposition, AMetricThatWasRenamedSaysItsOldName) {
  Exposition page;
  page.Gauge("spillway_tier_clean_bytes", "Clean.", 1);
  page.Gauge("spillway_tier_backed_bytes", "No metric has an old name.", 1);
  EXPECT_THAT(page.text(), HasSubstr("# HELP spillway_tier_clean_bytes Clean. (Was "
                                     "spillway_tier_backed_bytes.)\n# TYPE"));
  EXPECT_THAT(page.text(), HasSubstr("No metric has an old name.\n"));
}

TEST_F(ApiTest, NoMetricHasAnOldName) {
  const std::string page = Get("/metrics").body;
  for (const RenamedName& each : RenamedNames()) {
    if (each.kind != NameKind::kMetric) continue;
    if (!OldNameOf(NameKind::kMetric, each.old_name).empty()) continue;  // It has a new meaning.
    EXPECT_THAT(page, Not(HasSubstr(fmt::format("# TYPE {} ", each.old_name))));
  }
}

TEST(Exposition, HistogramsAddUp) {
  Exposition page;
  const std::array<double, 2> bounds = {0.5, 1};
  const std::array<std::uint64_t, 3> counts = {2, 0, 1};
  page.Histogram("h_seconds", "Times.", bounds, counts, 3.5);
  EXPECT_EQ(page.text(),
            "# HELP h_seconds Times.\n# TYPE h_seconds histogram\n"
            "h_seconds_bucket{le=\"0.5\"} 2\nh_seconds_bucket{le=\"1\"} 2\n"
            "h_seconds_bucket{le=\"+Inf\"} 3\nh_seconds_sum 3.5\nh_seconds_count 3\n");
}

// --- the feed ---

TEST(Feed, KeepsTheLatest) {
  Feed feed;
  std::uint64_t passed = 7;
  EXPECT_THAT(feed.After(0, 10, &passed), IsEmpty());
  EXPECT_EQ(passed, 0U);
  for (std::size_t i = 1; i <= Feed::kKept + 5; ++i) {
    const std::string key = "k" + std::to_string(i);
    Event event;
    event.key = key;
    feed.OnEvent(event);
  }
  EXPECT_EQ(feed.latest(), Feed::kKept + 5);
  const auto two = feed.After(Feed::kKept, 2, &passed);
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(passed, 3U);
  EXPECT_EQ(two[0].key, "k" + std::to_string(Feed::kKept + 4));
  EXPECT_EQ(two[1].number, Feed::kKept + 5);
  const auto all = feed.After(0, 1'000'000, &passed);
  EXPECT_EQ(all.size(), Feed::kKept);
  EXPECT_EQ(passed, 5U);
  EXPECT_EQ(all.front().key, "k6");
  EXPECT_THAT(feed.After(Feed::kKept + 5, 10, &passed), IsEmpty());
  // The number is from an earlier process.
  EXPECT_EQ(feed.After(Feed::kKept + 1'000'000, 10, &passed).size(), 10U);
}

TEST(Feed, LongKeysAreCut) {
  Feed feed;
  const std::string key(65536, 'x');
  Event event;
  event.key = key;
  feed.OnEvent(event);
  std::uint64_t passed = 0;
  const auto items = feed.After(0, 1, &passed);
  ASSERT_EQ(items.size(), 1U);
  EXPECT_EQ(items[0].key.size(), Feed::kKeyMax);
  EXPECT_EQ(items[0].key_bytes, 65536U);
}

// --- the api ---

TEST_F(ApiTest, HealthAndReadiness) {
  password_ = "p";
  EXPECT_EQ(Get("/healthz").body, "ok\n");
  EXPECT_EQ(Get("/readyz").status, 200);
  not_ready_ = "the disk is being read in";
  EXPECT_EQ(Get("/readyz").status, 503);
  EXPECT_EQ(Get("/readyz").body, "the disk is being read in\n");
  EXPECT_EQ(Get("/healthz").status, 200);
}

TEST_F(ApiTest, OnlyThoseMayAskWhoMay) {
  EXPECT_THAT(ErrorOf(api_->Handle({.method = "GET", .target = "/healthz", .host = "evil"}), 421),
              HasSubstr("http_hosts"));
  EXPECT_EQ(api_->Handle({.method = "GET", .target = "/healthz"}).status, 421);
  EXPECT_EQ(api_->Handle({.method = "GET",
                          .target = "/api/v1/stats",
                          .host = "localhost",
                          .origin = "http://evil"})
                .status,
            403);
  EXPECT_EQ(Get("/api/v1/stats").status, 200);
  // Without a password no request may change anything.
  Set("k", "v");
  EXPECT_THAT(ErrorOf(Ask("POST", "/api/v1/drop", R"({"key":"k"})"), 403), HasSubstr("password"));
  password_ = "p";
  for (const char* path : {"/metrics", "/api/v1", "/api/v1/stats", "/api/v1/live", "/api/v1/graph",
                           "/api/v1/history", "/api/v1/contexts"}) {
    const Answer answer = Get(path);
    EXPECT_EQ(answer.status, 401) << path;
    EXPECT_THAT(answer.body, Not(HasSubstr("\"p\"")));
  }
  // Pages contain no secrets and need no password.
  EXPECT_EQ(Get("/page").status, 200);
  EXPECT_EQ(Get("/").status, 200);
  EXPECT_EQ(Ask("POST", "/api/v1/drop", R"({"key":"k"})").status, 401);
  EXPECT_EQ(Ask("POST", "/api/v1/explain", R"({"key":"k"})").status, 401);
  EXPECT_TRUE(cache_->Contains("k"));
  authorization_ = "Bearer p";
  EXPECT_EQ(Get("/metrics").status, 200);
  EXPECT_EQ(Ask("POST", "/api/v1/drop", R"({"key":"k"})").body, R"({"dropped":true})");
  EXPECT_FALSE(cache_->Contains("k"));
}

TEST_F(ApiTest, AnswersAreGuarded) {
  for (const char* path : {"/healthz", "/nothing", "/page", "/api/v1/stats"}) {
    std::string all;
    for (const auto& [name, value] : Get(path).headers) all += name + ": " + value + "\n";
    EXPECT_THAT(all, HasSubstr("Content-Security-Policy: default-src 'none'")) << path;
    EXPECT_THAT(all, HasSubstr("X-Content-Type-Options: nosniff")) << path;
    EXPECT_THAT(all, HasSubstr(path == std::string_view("/page") ? "Cache-Control: no-cache"
                                                                 : "Cache-Control: no-store"))
        << path;
  }
}

TEST_F(ApiTest, WhatIsNotThereIsSaid) {
  EXPECT_THAT(ErrorOf(Get("/nothing"), 404), HasSubstr("GET /api/v1"));
  const Answer answer = Ask("DELETE", "/metrics");
  EXPECT_EQ(answer.status, 405);
  EXPECT_THAT(answer.headers,
              ::testing::Contains(std::pair<std::string, std::string>("Allow", "GET, HEAD")));
  EXPECT_EQ(Ask("GET", "/api/v1/drop").status, 405);
  EXPECT_EQ(Ask("POST", "/page").status, 405);
  EXPECT_EQ(Get("bad").status, 400);
  EXPECT_EQ(Get("/page").body, "<p>");
  // Without the dashboard, "/" says so.
  EXPECT_THAT(Get("/").body, HasSubstr("not in this program"));
  EXPECT_THAT(Get("/api/v1").body, HasSubstr("/api/v1/live"));
}

TEST_F(ApiTest, MetricsCountAndNameNoKeys) {
  Set("secret-key", "v", 7);
  ASSERT_TRUE(cache_->Get("secret-key").value());
  const std::string text = Get("/metrics").body;
  EXPECT_THAT(text, HasSubstr("\nspillway_entries 1\n"));
  EXPECT_THAT(text, HasSubstr("\nspillway_tokens 7\n"));
  EXPECT_THAT(text, HasSubstr("\nspillway_hits_total 1\n"));
  EXPECT_THAT(text, HasSubstr("\nspillway_tier_bytes{tier=\"device\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nspillway_tier_level{tier=\"device\",level=\"relaxed\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nmore 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("secret")));
}

TEST_F(ApiTest, ContextsAreSortedSearchedAndPaged) {
  Set("b", std::string(10, 'x'), 3);
  Set("a", std::string(30, 'x'), 2);
  Set("context:c", std::string(20, 'x'), 1);
  EXPECT_THAT(KeysOf("/api/v1/contexts?sort=key"), ElementsAre("a", "b", "context:c"));
  EXPECT_THAT(KeysOf("/api/v1/contexts?sort=bytes&desc=1"), ElementsAre("a", "context:c", "b"));
  EXPECT_THAT(KeysOf("/api/v1/contexts?sort=tokens&offset=1&limit=1"), ElementsAre("a"));
  EXPECT_THAT(KeysOf("/api/v1/contexts?sort=key&offset=9"), IsEmpty());
  EXPECT_THAT(KeysOf("/api/v1/contexts?search=ext:"), ElementsAre("context:c"));
  const Json page = Read("/api/v1/contexts?sort=key&limit=0&search=context");
  EXPECT_EQ(page["total"], 3);
  EXPECT_EQ(page["matching"], 1);
  const Json row = Read("/api/v1/contexts?search=context")["contexts"][0];
  EXPECT_EQ(row["agent"], "c");
  EXPECT_EQ(row["tokens"], 1);
  EXPECT_EQ(row["bytes"], 20);
  EXPECT_EQ(row["tier"], "device");
  EXPECT_EQ(row["backed"], false);
  EXPECT_THAT(ErrorOf(Get("/api/v1/contexts?sort=size"), 400), HasSubstr("tokens"));
  EXPECT_EQ(Get("/api/v1/contexts?limit=1001").status, 400);
  EXPECT_EQ(Get("/api/v1/contexts?limit=-1").status, 400);
  EXPECT_EQ(Get("/api/v1/contexts?desc=2").status, 400);
}

TEST_F(ApiTest, AKeyThatIsNoTextIsShownEscapedAndStandsWholeBesides) {
  const std::string binary("<b>\0\xff\n", 6);
  const std::string large(65536, '\x01');
  Set(binary, "v");
  Set(large, "v");
  const Json rows = Read("/api/v1/contexts?sort=key")["contexts"];
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1]["hex"], "3c623e00ff0a");
  EXPECT_LE(rows[0]["key"].get<std::string>().size(), 1000U);
  EXPECT_EQ(rows[0]["hex"].get<std::string>().size(), 2 * large.size());
  EXPECT_EQ(Read("/api/v1/explain?hex=3C623e00ff0a")["found"], true);
  EXPECT_EQ(Read("/api/v1/explain?key=%3cb%3e%00%ff%0a")["found"], true);
  EXPECT_EQ(Get("/api/v1/explain?hex=3c6").status, 400);
  const std::string hex = rows[0]["hex"];
  const Answer long_one = Ask("POST", "/api/v1/explain", R"({"hex":")" + hex + R"("})");
  EXPECT_EQ(Json::parse(long_one.body)["key_bytes"], 65536);
  EXPECT_EQ(Json::parse(long_one.body)["found"], true);
  EXPECT_EQ(Ask("POST", "/api/v1/explain", "{}").status, 400);
  EXPECT_EQ(Ask("DELETE", "/api/v1/explain").status, 405);
  EXPECT_EQ(Get("/api/v1/explain?hex=3g").status, 400);
  EXPECT_EQ(Get("/api/v1/explain").status, 400);
  password_ = "p";
  authorization_ = "Bearer p";
  EXPECT_EQ(Ask("POST", "/api/v1/drop", R"({"hex":"3c623e00ff0a"})").body, R"({"dropped":true})");
}

TEST_F(ApiTest, ExplainsAndRanks) {
  Set("first", "v");
  Set("second", "v");
  EXPECT_THAT(Read("/api/v1/explain?key=first")["explain"], HasSubstr("first"));
  const Json first = Read("/api/v1/explain?key=first");
  EXPECT_EQ(first["entry"]["tier"], "device");
  EXPECT_EQ(first["key_bytes"], 5);
  EXPECT_THAT(first["journey"], IsEmpty());
  EXPECT_EQ(Read("/api/v1/explain?key=never")["found"], false);
  Set("third", "v");
  cache_->Erase("third");
  const Json third = Read("/api/v1/explain?key=third");
  ASSERT_EQ(third["journey"].size(), 1U);
  EXPECT_EQ(third["journey"][0]["action"], "destroy");
  EXPECT_EQ(third["journey"][0]["reason"], "erased");
  EXPECT_EQ(third["journey"][0]["tier"], "device");
  const Json order = Read("/api/v1/order?limit=1");
  EXPECT_EQ(order["total"], 2);
  ASSERT_EQ(order["first"].size(), 1U);
  EXPECT_EQ(order["first"][0]["key"], "first");
}

TEST_F(ApiTest, TellsWhatLeft) {
  Set("k", "v", 5);
  cache_->Erase("k");
  const Json events = Read("/api/v1/events");
  EXPECT_EQ(events["latest"], 1);
  ASSERT_EQ(events["events"].size(), 1U);
  EXPECT_EQ(events["events"][0]["key"], "k");
  EXPECT_EQ(events["events"][0]["reason"], "erased");
  EXPECT_EQ(events["events"][0]["tokens"], 5);
  EXPECT_THAT(Read("/api/v1/events?after=1")["events"], IsEmpty());
  Stream stream;
  const std::string step = api_->Step(&stream);
  EXPECT_EQ(stream.after, 1U);
  EXPECT_THAT(step, HasSubstr("id: 1\nevent: left\ndata: {"));
  EXPECT_THAT(step, HasSubstr("event: state\ndata: {"));
  const std::string next = api_->Step(&stream);
  EXPECT_THAT(next, Not(HasSubstr("event: left")));
  EXPECT_THAT(next, HasSubstr("event: state"));
}

TEST_F(ApiTest, StreamsHaveABoundedPace) {
  const Answer live = Get("/api/v1/live?every=250ms");
  ASSERT_TRUE(live.live);
  EXPECT_EQ(live.live->every, std::chrono::milliseconds(250));
  EXPECT_FALSE(live.live->changes);
  EXPECT_TRUE(Get("/api/v1/live?changes=1").live->changes);
  EXPECT_EQ(Get("/api/v1/live?changes=2").status, 400);
  EXPECT_EQ(Get("/api/v1/live?every=1ms").status, 400);
  EXPECT_EQ(Get("/api/v1/live?every=1h").status, 400);
  EXPECT_EQ(Get("/api/v1/live?every=soon").status, 400);
}

TEST_F(ApiTest, ControlsSayWhatTheyDid) {
  password_ = "p";
  authorization_ = "Bearer p";
  Set("k", "v");
  const Answer freed = Ask("POST", "/api/v1/reclaim", R"({"bytes":"1GiB","within":"100ms"})");
  EXPECT_EQ(freed.status, 200) << freed.body;
  EXPECT_NE(Json::parse(freed.body)["why_not_more"], "");
  EXPECT_TRUE(cache_->Contains("k"));
  EXPECT_EQ(Json::parse(Ask("POST", "/api/v1/prefetch", R"({"keys":["k","no"]})").body)["coming"],
            1);
  EXPECT_EQ(Json::parse(Ask("POST", "/api/v1/prefetch", R"({"hex":["6b"]})").body)["coming"], 1);
  EXPECT_EQ(Ask("POST", "/api/v1/prefetch", R"({"hex":["6"]})").status, 400);
  EXPECT_EQ(Ask("POST", "/api/v1/prefetch", R"({})").status, 400);
  EXPECT_EQ(Ask("POST", "/api/v1/reclaim", R"({"bytes":1048576})").status, 200);
  for (const char* body :
       {"", "[]", "{", "{}", R"({"bytes":"many"})", R"({"bytes":"1MiB","within":"1h"})",
        R"({"bytes":"1MiB","within":"0s"})", R"({"bytes":-1})"}) {
    EXPECT_NE(ErrorOf(Ask("POST", "/api/v1/reclaim", body), 400), "") << body;
  }
  EXPECT_EQ(Ask("POST", "/api/v1/prefetch", R"({"keys":[1]})").status, 400);
  EXPECT_EQ(Ask("POST", "/api/v1/drop", R"({"key":""})").status, 400);
  // A form on another site's page cannot set this content type.
  EXPECT_EQ(api_->Handle({.method = "POST",
                          .target = "/api/v1/drop",
                          .host = "localhost",
                          .authorization = "Bearer p",
                          .content_type = "text/plain",
                          .body = R"({"key":"k"})"})
                .status,
            400);
  EXPECT_TRUE(cache_->Contains("k"));
}

}  // namespace
}  // namespace spillway::http
