#include "demo/context.h"

#include <numeric>
#include <utility>

#include <fmt/format.h>

namespace spillway::demo {

namespace {
constexpr int kSystemBlocks = 4;
constexpr int kPrefixBlocks = 2;
constexpr Tokens kPromptTokens = 256;
// A tool talks more than it is quoted: the rule of PRESSURE, many tokens and
// few uses first, has something to choose from.
constexpr Tokens kToolTokens = 256;
constexpr Tokens kAnswerTokens = 128;
}  // namespace

Context::Context(std::string agent, Conversation shape) : agent_(std::move(agent)), shape_(shape) {
  BeginConversation(shape_.turns_at_first);
}

Tokens Context::tokens() const {
  return std::accumulate(blocks_.begin(), blocks_.end(), Tokens{0},
                         [](Tokens sum, const Block& block) { return sum + block.tokens; });
}

void Context::AppendTurn() {
  if (turn_ >= shape_.turns_most) BeginConversation(shape_.turns_kept);
  ++turn_;
  Append(fmt::format("{}/{}/t{:02}/tool", agent_, conversation_, turn_), kToolTokens);
  Append(fmt::format("{}/{}/t{:02}/answer", agent_, conversation_, turn_), kAnswerTokens);
}

std::vector<std::string> Context::TakeForgotten() { return std::exchange(forgotten_, {}); }

void Context::BeginConversation(int turns) {
  // Prompts and the agent's own prefix go on; turns do not.
  for (std::size_t i = kSystemBlocks + kPrefixBlocks; i < blocks_.size(); ++i) {
    forgotten_.push_back(std::move(blocks_[i].key));
  }
  blocks_.clear();
  ++conversation_;
  turn_ = 0;
  for (int i = 0; i < kSystemBlocks; ++i) Append(fmt::format("system/{}", i), kPromptTokens);
  for (int i = 0; i < kPrefixBlocks; ++i) {
    Append(fmt::format("{}/prefix/{}", agent_, i), kPromptTokens);
  }
  while (turn_ < turns) AppendTurn();
}

void Context::Append(std::string key, Tokens tokens) {
  std::string parent = blocks_.empty() ? std::string() : blocks_.back().key;
  blocks_.push_back({std::move(key), std::move(parent), tokens});
}

}  // namespace spillway::demo
