// SPDX-License-Identifier: Apache-2.0
// Writes replies of the Redis protocol as bytes, in RESP2 or RESP3. Pure: appends to a string and
// knows nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace spillway::wire {

enum class Protocol : std::uint8_t { kResp2 = 2, kResp3 = 3 };

// The protocol is that of the connection; values RESP2 lacks are written as Redis does.
class ReplyWriter {
 public:
  ReplyWriter(std::string* out, Protocol protocol) : out_(out), protocol_(protocol) {}

  Protocol protocol() const { return protocol_; }
  std::string& out() { return *out_; }

  void Ok() { out_->append("+OK\r\n", 5); }
  void Simple(std::string_view text);
  // `text` begins with its code ("ERR ..."). Line ends in it become blanks, since they would end
  // the reply.
  void Error(std::string_view text);
  void Integer(std::int64_t number);
  void Bulk(std::string_view bytes);
  // Writes only the header. The caller sends the bytes and a CRLF.
  void BulkHeader(std::uint64_t bytes);
  void BulkInteger(std::int64_t number);
  void Null();       // A missing value.
  void NullArray();  // A missing array: RESP2 distinguishes the two.
  void Array(std::size_t count);
  void Set(std::size_t count);
  // A map of `pairs` keys and values; in RESP2 an array of twice as many elements.
  void Map(std::size_t pairs);
  void Double(double number);
  void Boolean(bool yes);
  // Text for people; `format` is "txt" or "mkd".
  void Verbatim(std::string_view text, std::string_view format = "txt");

 private:
  void Header(char kind, std::uint64_t number);

  std::string* out_;
  Protocol protocol_;
};

}  // namespace spillway::wire
