#include "demo/verifier.h"

#include <algorithm>
#include <span>
#include <utility>

#include "demo/content.h"
#include "demo/socket_contexts.h"

namespace spillway::demo {

Verifier::Verifier(const std::string& socket, std::vector<Block> blocks, Bytes bytes_per_token)
    : socket_(socket),
      blocks_(std::move(blocks)),
      bytes_per_token_(bytes_per_token),
      thread_([this](const std::stop_token& stop) {
        Run(stop);
        done_.store(true, std::memory_order_release);
      }) {}

void Verifier::Run(const std::stop_token& stop) {
  constexpr std::size_t kAtOnce = 16;
  SocketContexts contexts(socket_);
  const std::span<const Block> all(blocks_);
  for (std::size_t at = 0; at < all.size() && !stop.stop_requested(); at += kAtOnce) {
    const std::span<const Block> some = all.subspan(at, std::min(kAtOnce, all.size() - at));
    std::vector<std::string_view> keys;
    for (const Block& block : some) keys.push_back(block.key);
    const Status read = contexts.Read(keys, [&](std::size_t i, const Found& found) {
      Check(some[i], found.there, found.tokens, found.bytes);
    });
    if (read) continue;
    outcome_.trouble = read.error().message;
    return;
  }
  if (stop.stop_requested()) outcome_.trouble = "it was stopped";
}

void Verifier::Check(const Block& block, bool there, Tokens tokens,
                     std::span<const std::byte> bytes) {
  if (!there) {
    ++outcome_.missing;
    return;
  }
  const auto expected = static_cast<Bytes>(block.tokens) * bytes_per_token_;
  const bool shape = bytes.size() == expected && tokens == block.tokens;
  const std::uint64_t wrong = shape ? CountWrongBytes(SeedOf(block.key), bytes) : expected;
  outcome_.bytes += bytes.size();
  outcome_.wrong_bytes += wrong;
  if (wrong == 0) ++outcome_.found;
}

}  // namespace spillway::demo
