// SPDX-License-Identifier: Apache-2.0
#include "tier/disk/codec.h"

namespace spillway {
namespace {

// Bits of the flags byte.
constexpr std::uint8_t kParentDeclared = 1;
constexpr std::uint8_t kExpires = 2;
constexpr std::uint8_t kNoIdleTtl = 4;
constexpr unsigned kFlags = kParentDeclared | kExpires | kNoIdleTtl;

// Six numbers, the flags, and the lengths of five strings.
constexpr Bytes kRecordFixedBytes = 6 * sizeof(std::uint64_t) + 1 + 5 * sizeof(std::uint32_t);

}  // namespace

Bytes EncodedBytes(const BlobFacts& facts) {
  return kRecordFixedBytes + facts.key.size() + facts.tenant.size() + facts.agent.size() +
         facts.meta.size() + facts.parent.size();
}

void Encode(const BlobFacts& facts, Encoder* out) {
  out->Put(facts.generation);
  out->Put(facts.size);
  out->Put(facts.tokens);
  out->Put(facts.access_count);
  out->Put(facts.parent_generation);
  out->Put(facts.expires_unix_ns.value_or(0));
  out->Put(static_cast<std::uint8_t>((facts.parent_declared ? kParentDeclared : 0) |
                                     (facts.expires_unix_ns ? kExpires : 0) |
                                     (facts.no_idle_ttl ? kNoIdleTtl : 0)));
  out->Put(facts.key);
  out->Put(facts.tenant);
  out->Put(facts.agent);
  out->Put(facts.meta);
  out->Put(facts.parent);
}

bool Decode(Decoder* in, BlobFacts* facts) {
  facts->generation = in->Get<std::uint64_t>();
  facts->size = in->Get<Bytes>();
  facts->tokens = in->Get<Tokens>();
  facts->access_count = in->Get<std::uint64_t>();
  facts->parent_generation = in->Get<std::uint64_t>();
  const auto expires = in->Get<std::int64_t>();
  const auto flags = in->Get<std::uint8_t>();
  // Decoding is strict: flags and values that Encode never writes are an error.
  if ((flags & ~kFlags) != 0 || (expires != 0 && (flags & kExpires) == 0)) return false;
  facts->parent_declared = (flags & kParentDeclared) != 0;
  facts->expires_unix_ns.reset();
  if ((flags & kExpires) != 0) facts->expires_unix_ns = expires;
  facts->no_idle_ttl = (flags & kNoIdleTtl) != 0;
  facts->key = in->GetText();
  facts->tenant = in->GetText();
  facts->agent = in->GetText();
  facts->meta = in->GetText();
  facts->parent = in->GetText();
  return in->ok();
}

}  // namespace spillway
