// SPDX-License-Identifier: Apache-2.0
// A toy paged engine on Spillway: a small pool of blocks, a block table per request, and two
// streams of requests that share a system prompt. After a request its blocks are stored in the
// cache as a chain. The next request reads the longest prefix it finds there and computes only the
// rest.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <spillway/cache.h>

namespace {

constexpr std::size_t kBlockTokens = 16;
constexpr std::size_t kBlockBytes = kBlockTokens * 1024;  // KV data of one block.
constexpr std::size_t kPoolBlocks = 64;

using Tokens = std::vector<std::uint32_t>;
using Block = std::vector<std::uint8_t>;

// The KV data of a block: a function of all tokens up to its end.
Block Compute(const Tokens& tokens, std::size_t end) {
  std::uint64_t state = 0x9e3779b97f4a7c15ULL;
  for (std::size_t i = 0; i < end; ++i) state = (state ^ tokens[i]) * 0x100000001b3ULL;
  Block block(kBlockBytes);
  for (std::uint8_t& byte : block) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    byte = static_cast<std::uint8_t>(state >> 56);
  }
  return block;
}

// A block's key names the whole prefix up to it: equal prefixes have equal keys.
std::vector<std::string> KeysOf(const Tokens& tokens) {
  std::vector<std::string> keys;
  std::uint64_t hash = 1469598103934665603ULL;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    hash = (hash ^ tokens[i]) * 1099511628211ULL;
    if ((i + 1) % kBlockTokens == 0) keys.push_back("kv:" + std::to_string(hash));
  }
  return keys;
}

class Engine {
 public:
  explicit Engine(spillway::Cache* cache) : cache_(cache), pool_(kPoolBlocks, Block(kBlockBytes)) {}

  // Serves one request. False: some block's bytes are wrong.
  bool Serve(const char* stream, const Tokens& tokens) {
    const std::vector<std::string> keys = KeysOf(tokens);
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    // Block table: index in the request -> index in the pool.
    std::vector<std::size_t> table(keys.size());
    for (std::size_t i = 0; i < table.size(); ++i) table[i] = i % kPoolBlocks;

    // One call leases the longest known prefix; then it is copied into our blocks.
    const std::vector<spillway::Lease> prefix = cache_->GetChain(views);
    for (std::size_t i = 0; i < prefix.size(); ++i) {
      std::memcpy(pool_[table[i]].data(), prefix[i].data(), prefix[i].size());
    }
    for (std::size_t i = prefix.size(); i < keys.size(); ++i) {
      pool_[table[i]] = Compute(tokens, (i + 1) * kBlockTokens);
    }
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (pool_[table[i]] != Compute(tokens, (i + 1) * kBlockTokens)) return false;
    }
    Keep(stream, keys, prefix.size(), table);
    reused_ += prefix.size();
    computed_ += keys.size() - prefix.size();
    std::printf("%s: %zu blocks, %zu taken back, %zu computed\n", stream, keys.size(),
                prefix.size(), keys.size() - prefix.size());
    return true;
  }

  std::size_t reused() const { return reused_; }
  std::size_t computed() const { return computed_; }

 private:
  // New blocks are set as a chain, each with the block before it as its parent.
  void Keep(const char* stream, const std::vector<std::string>& keys, std::size_t from,
            const std::vector<std::size_t>& table) {
    for (std::size_t i = from; i < keys.size(); ++i) {
      spillway::SetOptions options;
      options.tokens = kBlockTokens;
      options.agent = stream;
      if (i > 0) options.parent = keys[i - 1];
      const auto stored =
          cache_->Set(keys[i], spillway::Source(pool_[table[i]].data(), kBlockBytes), options);
      if (!stored) return;  // Refused for pressure: continue without storing the rest.
    }
  }

  spillway::Cache* const cache_;
  std::vector<Block> pool_;
  std::size_t reused_ = 0;
  std::size_t computed_ = 0;
};

Tokens Extend(Tokens tokens, std::uint32_t seed, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    tokens.push_back(seed * 7919U + static_cast<std::uint32_t>(i));
  return tokens;
}

}  // namespace

int main() {
  spillway::Options options;
  options.capacity = 4 * spillway::kMiB;
  auto cache = spillway::Cache::Open(options);
  if (!cache) {
    std::fprintf(stderr, "%s\n", cache.error().message.c_str());
    return 1;
  }
  Engine engine(cache->get());
  const Tokens system = Extend({}, 1, 10 * kBlockTokens);
  Tokens coder = Extend(system, 2, 2 * kBlockTokens);
  Tokens reviewer = Extend(system, 3, 2 * kBlockTokens);
  for (std::uint32_t turn = 0; turn < 4; ++turn) {
    if (!engine.Serve("coder", coder) || !engine.Serve("reviewer", reviewer)) {
      std::fprintf(stderr, "wrong bytes\n");
      return 1;
    }
    coder = Extend(coder, 10 + turn, kBlockTokens);
    reviewer = Extend(reviewer, 20 + turn, kBlockTokens);
  }
  std::printf("%zu blocks taken back, %zu computed\n", engine.reused(), engine.computed());
  return engine.reused() > engine.computed() ? 0 : 1;
}
