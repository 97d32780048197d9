// SPDX-License-Identifier: Apache-2.0
#include "server/output.h"

#include <sys/uio.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "spillway/cache.h"

namespace spillway::server {
namespace {

class OutputTest : public ::testing::Test {
 protected:
  OutputTest() {
    Options options;
    options.capacity = 8 * kMiB;
    options.pressure_source = "fixed:0.1";
    cache_ = Cache::Open(options).value();
    const std::string value(5000, 'v');
    EXPECT_TRUE(cache_->Set("k", Source(value.data(), value.size()), {}));
  }
  Lease Value() {
    Result<std::optional<Lease>> got = cache_->Get("k");
    return std::move(**got);
  }
  std::string Unsent() const {
    std::array<iovec, 16> pieces{};
    const std::size_t count = out_.Pieces(pieces.data(), pieces.size());
    std::string all;
    for (std::size_t i = 0; i < count; ++i) {
      all.append(static_cast<const char*>(pieces.at(i).iov_base), pieces.at(i).iov_len);
    }
    return all;
  }

  std::unique_ptr<Cache> cache_;
  Output out_;
};

// A command that attaches a value and then has to wait begins anew: nothing of its reply
// stays, also where earlier replies were sent in part.
TEST_F(OutputTest, WhatIsTakenBackLeavesNothingBehindRepliesSentInPart) {
  for (const std::size_t sent : {0U, 1U, 5U, 9U}) {
    out_.Clear();
    out_.text() += "+QUEUED\r\n";
    out_.Sent(sent);
    const std::string before = Unsent();
    const Output::Mark mark = out_.mark();
    out_.text() += "*2\r\n$5000\r\n";
    out_.Attach(Value());
    out_.text() += "\r\n$1\r\nx";
    out_.TakeBack(mark);
    EXPECT_EQ(Unsent(), before) << sent << " bytes were sent";
    out_.text() += "$-1\r\n";
    EXPECT_EQ(Unsent(), before + "$-1\r\n");
  }
}

TEST_F(OutputTest, WhatIsTakenBackLeavesValuesOfEarlierReplies) {
  out_.text() += "$5000\r\n";
  out_.Attach(Value());
  out_.text() += "\r\n";
  out_.Sent(5005);  // Of the value, too.
  const std::string before = Unsent();
  const Output::Mark mark = out_.mark();
  out_.text() += "$5000\r\n";
  out_.Attach(Value());
  out_.TakeBack(mark);
  EXPECT_EQ(Unsent(), before);
}

}  // namespace
}  // namespace spillway::server
