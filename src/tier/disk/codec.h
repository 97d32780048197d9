// SPDX-License-Identifier: Apache-2.0
// Fixed-width little-endian numbers and counted strings, and the encoding of a
// blob's facts. A Decoder checks each length before it uses it. After a read
// that does not fit it has failed, and all further reads return zero.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "tier/blob.h"

namespace spillway {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

// Appends encoded values to a vector.
class Encoder {
 public:
  explicit Encoder(std::vector<std::byte>* out) : out_(out) {}

  template <typename Number>
  void Put(Number value) {
    static_assert(std::is_integral_v<Number>);
    Append(&value, sizeof value);
  }
  void Put(const Hash128& hash) {
    Put(hash.low);
    Put(hash.high);
  }
  void Put(const std::string& text) {
    Put(static_cast<std::uint32_t>(text.size()));
    Append(text.data(), text.size());
  }

 private:
  void Append(const void* data, std::size_t bytes) {
    const auto* from = static_cast<const std::byte*>(data);
    out_->insert(out_->end(), from, from + bytes);
  }
  std::vector<std::byte>* out_;
};

// Reads encoded values from bytes that need not be valid.
class Decoder {
 public:
  explicit Decoder(std::span<const std::byte> bytes) : left_(bytes) {}

  template <typename Number>
  Number Get() {
    Number value{};
    if (!Has(sizeof value)) return {};
    std::memcpy(&value, left_.data(), sizeof value);
    left_ = left_.subspan(sizeof value);
    return value;
  }
  Hash128 GetHash() {
    const auto low = Get<std::uint64_t>();
    return {low, Get<std::uint64_t>()};
  }
  std::string GetText() {
    const auto bytes = Get<std::uint32_t>();
    if (!Has(bytes)) return {};
    std::string text(reinterpret_cast<const char*>(left_.data()), bytes);
    left_ = left_.subspan(bytes);
    return text;
  }
  // Whether all reads so far succeeded.
  bool ok() const { return ok_; }
  std::size_t left() const { return left_.size(); }

 private:
  bool Has(std::size_t bytes) {
    if (bytes > left_.size()) {
      ok_ = false;
      left_ = {};
    }
    return ok_;
  }
  std::span<const std::byte> left_;
  bool ok_ = true;
};

// An upper bound for the facts of any entry that the cache accepts: key, parent
// and meta of 64 KiB each, agent and tenant of 1 KiB.
inline constexpr Bytes kFactsBytesMax = 256 * kKiB;

Bytes EncodedBytes(const BlobFacts& facts);
void Encode(const BlobFacts& facts, Encoder* out);
// Returns false if the bytes are not valid facts.
bool Decode(Decoder* in, BlobFacts* facts);

}  // namespace spillway
