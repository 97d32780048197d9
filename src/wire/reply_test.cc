// SPDX-License-Identifier: Apache-2.0
#include "wire/reply.h"

#include <string>

#include <gtest/gtest.h>

namespace spillway::wire {
namespace {

std::string Written(Protocol protocol, void (*write)(ReplyWriter& reply)) {
  std::string out;
  ReplyWriter reply(&out, protocol);
  write(reply);
  return out;
}

TEST(ReplyWriter, SpeaksBothProtocols) {
  const auto all = [](ReplyWriter& reply) {
    reply.Null();
    reply.NullArray();
    reply.Map(1);
    reply.Set(2);
    reply.Boolean(true);
    reply.Double(0.5);
    reply.Verbatim("hi");
  };
  EXPECT_EQ(Written(Protocol::kResp2, all),
            "$-1\r\n*-1\r\n*2\r\n*2\r\n:1\r\n$3\r\n0.5\r\n$2\r\nhi\r\n");
  EXPECT_EQ(Written(Protocol::kResp3, all), "_\r\n_\r\n%1\r\n~2\r\n#t\r\n,0.5\r\n=6\r\ntxt:hi\r\n");
}

TEST(ReplyWriter, AnErrorNeverEndsItsLineEarly) {
  EXPECT_EQ(Written(Protocol::kResp2, [](ReplyWriter& reply) { reply.Error("ERR a\r\n+OK"); }),
            "-ERR a  +OK\r\n");
}

TEST(ReplyWriter, NumbersAndBulks) {
  EXPECT_EQ(Written(Protocol::kResp2,
                    [](ReplyWriter& reply) {
                      reply.Integer(-42);
                      reply.Bulk("a\r\nb");
                      reply.BulkInteger(7);
                      reply.Array(0);
                    }),
            ":-42\r\n$4\r\na\r\nb\r\n$1\r\n7\r\n*0\r\n");
}

}  // namespace
}  // namespace spillway::wire
