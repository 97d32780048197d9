// SPDX-License-Identifier: Apache-2.0
#include "wire/reply.h"

#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

namespace spillway::wire {

namespace {
void AppendNumber(std::string* out, std::int64_t number) {
  std::array<char, 24> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), number);
  static_cast<void>(error);
  out->append(text.data(), static_cast<std::size_t>(end - text.data()));
}
}  // namespace

void ReplyWriter::Header(char kind, std::uint64_t number) {
  *out_ += kind;
  AppendNumber(out_, static_cast<std::int64_t>(number));
  out_->append("\r\n", 2);
}

void ReplyWriter::Simple(std::string_view text) {
  *out_ += '+';
  out_->append(text);
  out_->append("\r\n", 2);
}

void ReplyWriter::Error(std::string_view text) {
  *out_ += '-';
  for (const char c : text) *out_ += c == '\r' || c == '\n' ? ' ' : c;
  out_->append("\r\n", 2);
}

void ReplyWriter::Integer(std::int64_t number) {
  *out_ += ':';
  AppendNumber(out_, number);
  out_->append("\r\n", 2);
}

void ReplyWriter::BulkHeader(std::uint64_t bytes) { Header('$', bytes); }

void ReplyWriter::Bulk(std::string_view bytes) {
  Header('$', bytes.size());
  out_->append(bytes);
  out_->append("\r\n", 2);
}

void ReplyWriter::BulkInteger(std::int64_t number) { Bulk(fmt::to_string(number)); }

void ReplyWriter::Null() { out_->append(protocol_ == Protocol::kResp3 ? "_\r\n" : "$-1\r\n"); }

void ReplyWriter::NullArray() { out_->append(protocol_ == Protocol::kResp3 ? "_\r\n" : "*-1\r\n"); }

void ReplyWriter::Array(std::size_t count) { Header('*', count); }

void ReplyWriter::Set(std::size_t count) {
  Header(protocol_ == Protocol::kResp3 ? '~' : '*', count);
}

void ReplyWriter::Map(std::size_t pairs) {
  protocol_ == Protocol::kResp3 ? Header('%', pairs) : Header('*', 2 * pairs);
}

void ReplyWriter::Double(double number) {
  std::string text = std::isinf(number) ? (number > 0 ? "inf" : "-inf") : fmt::format("{}", number);
  if (protocol_ == Protocol::kResp2) {
    Bulk(text);
    return;
  }
  *out_ += ',';
  out_->append(text);
  out_->append("\r\n", 2);
}

void ReplyWriter::Boolean(bool yes) {
  if (protocol_ == Protocol::kResp2) {
    Integer(yes ? 1 : 0);
  } else {
    out_->append(yes ? "#t\r\n" : "#f\r\n");
  }
}

void ReplyWriter::Verbatim(std::string_view text, std::string_view format) {
  if (protocol_ == Protocol::kResp2) {
    Bulk(text);
    return;
  }
  Header('=', text.size() + 4);
  out_->append(format);
  *out_ += ':';
  out_->append(text);
  out_->append("\r\n", 2);
}

}  // namespace spillway::wire
