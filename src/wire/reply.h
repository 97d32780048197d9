// Replies of the Redis protocol, written as bytes: RESP2, or RESP3 to who asked
// for it. Pure: appends to a string and knows nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace spillway::wire {

enum class Protocol : std::uint8_t { kResp2 = 2, kResp3 = 3 };

class ReplyWriter {
 public:
  ReplyWriter(std::string* out, Protocol protocol) : out_(out), protocol_(protocol) {}

  Protocol protocol() const { return protocol_; }
  std::string& out() { return *out_; }

  void Ok() { out_->append("+OK\r\n", 5); }
  void Simple(std::string_view text);
  // `text` begins with its code ("ERR ..."). Line ends in it become blanks, since
  // they would end the reply.
  void Error(std::string_view text);
  void Integer(std::int64_t number);
  void Bulk(std::string_view bytes);
  // Only its header; the caller sends the bytes and a CRLF.
  void BulkHeader(std::uint64_t bytes);
  void BulkInteger(std::int64_t number);
  void Null();       // No value.
  void NullArray();  // No array: RESP2 has two kinds of nothing.
  void Array(std::size_t count);
  void Set(std::size_t count);
  // Of `pairs` keys and values; in RESP2 an array of twice as many.
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
