// SPDX-License-Identifier: Apache-2.0
// A daemon's state over a cache with time and pressure by hand, and clients
// without sockets: a request in, its reply out.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "server/command.h"
#include "server/state.h"
#include "spillway/cache.h"
#include "spillway/testing.h"

namespace spillway::server::testing {

class SessionTest : public ::testing::Test {
 protected:
  SessionTest() {
    config_ = DefaultConfig();
    config_.cache.capacity = 64 * kMiB;
  }

  State& Open(State::WallClock wall = nullptr, const void* wall_context = nullptr) {
    events_ = std::make_shared<State::Events>();
    Options options = config_.cache;
    options.clock = clock_;
    options.pressure = pressure_;
    options.key_group = &GroupOfKey;
    options.on_event = [events = events_](const Event& event) { events->OnEvent(event); };
    auto cache = Cache::Open(options);
    if (!cache) throw std::runtime_error(cache.error().message);
    cache_ = std::move(*cache);
    state_ = std::make_unique<State>(config_, cache_.get(), events_, wall, wall_context);
    session_.authenticated = config_.server.password.empty();
    return *state_;
  }

  std::string Do(Session& session, const std::vector<std::string>& words) {
    const std::vector<std::string_view> args(words.begin(), words.end());
    if (!Dispatch(*state_, session, args)) return "(waits)";
    state_->ErasePairs();
    std::string reply;
    std::array<iovec, 64> pieces{};
    const std::size_t count = session.out.Pieces(pieces.data(), pieces.size());
    for (std::size_t i = 0; i < count; ++i) {
      reply.append(static_cast<const char*>(pieces[i].iov_base), pieces[i].iov_len);
    }
    session.out.Clear();
    return reply;
  }
  std::string Do(const std::vector<std::string>& words) { return Do(session_, words); }

  std::shared_ptr<spillway::testing::ManualClock> clock_ =
      std::make_shared<spillway::testing::ManualClock>();
  std::shared_ptr<spillway::testing::ManualPressure> pressure_ =
      std::make_shared<spillway::testing::ManualPressure>(64 * kMiB);
  Config config_;
  std::shared_ptr<State::Events> events_;
  std::unique_ptr<Cache> cache_;
  std::unique_ptr<State> state_;
  Session session_;
};

}  // namespace spillway::server::testing
