#include "demo/chronicle.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cache/trace_line.h"

namespace spillway::demo {

namespace {

std::int64_t NowMs() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

Error Failed(const std::string& path) {
  return Error{Code::kUnavailable,
               fmt::format("cannot write '{}': {}", path, std::strerror(errno))};
}

}  // namespace

Result<std::unique_ptr<Chronicle>> Chronicle::Open(const std::string& path, Bytes bytes_per_token) {
  std::FILE* file = std::fopen(path.c_str(), "we");
  if (file == nullptr) return Failed(path);
  std::fputs(TraceHeader(kUnit).c_str(), file);
  return std::unique_ptr<Chronicle>(new Chronicle(path, file, bytes_per_token));
}

Chronicle::Chronicle(std::string path, std::FILE* file, Bytes bytes_per_token)
    : path_(std::move(path)), bytes_per_token_(bytes_per_token), start_ms_(NowMs()), file_(file) {}

Chronicle::~Chronicle() {
  if (file_ != nullptr) std::fclose(file_);
}

void Chronicle::Began(const std::string&, std::span<const Block> blocks, std::size_t) {
  const std::lock_guard lock(mutex_);
  for (const Block& block : blocks) {
    lru_.Touch(block.key, static_cast<Bytes>(block.tokens) * bytes_per_token_);
  }
}

void Chronicle::Ended(const std::string& agent, std::span<const Block> blocks, Tokens asked,
                      Tokens found) {
  const std::lock_guard lock(mutex_);
  std::vector<std::uint64_t> chain;
  for (const Block& block : blocks) {
    lru_.Touch(block.key, static_cast<Bytes>(block.tokens) * bytes_per_token_);
    const std::uint64_t first = FirstIdOf(block);
    const auto units = static_cast<std::uint64_t>(block.tokens / kUnit);
    for (std::uint64_t i = 0; i < units; ++i) chain.push_back(first + i);
  }
  ++totals_.requests;
  totals_.asked += asked;
  totals_.found += found;
  if (file_ == nullptr) return;
  std::string line;
  AppendTo(&line,
           {.at_ms = NowMs() - start_ms_, .tokens = asked, .chain = chain, .session = agent});
  std::fputs(line.c_str(), file_);
}

std::uint64_t Chronicle::FirstIdOf(const Block& block) {
  const auto [at, is_new] = ids_.emplace(block.key, next_id_);
  if (is_new) next_id_ += static_cast<std::uint64_t>(block.tokens / kUnit);
  return at->second;
}

void Chronicle::Forgot(std::span<const std::string> keys) {
  const std::lock_guard lock(mutex_);
  for (const std::string& key : keys) lru_.Forget(key);
}

void Chronicle::SetMemory(Bytes bytes) {
  const std::lock_guard lock(mutex_);
  lru_.SetCapacity(bytes);
  memory_sum_ += static_cast<double>(bytes);
  ++memory_count_;
}

std::size_t Chronicle::HeldByLru(std::span<const std::string> keys) const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::ranges::count_if(keys, [&](const std::string& key) { return lru_.Holds(key); }));
}

Chronicle::Totals Chronicle::totals() const {
  const std::lock_guard lock(mutex_);
  Totals totals = totals_;
  if (memory_count_ > 0) {
    totals.memory = static_cast<Bytes>(memory_sum_ / static_cast<double>(memory_count_));
  }
  return totals;
}

Status Chronicle::Finish() {
  const std::lock_guard lock(mutex_);
  std::FILE* const file = std::exchange(file_, nullptr);
  if (file == nullptr) return {};
  const bool written = std::ferror(file) == 0;
  if (std::fclose(file) != 0 || !written) return Failed(path_);
  return {};
}

}  // namespace spillway::demo
