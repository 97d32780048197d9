#include "demo/agent.h"

#include <chrono>
#include <utility>

#include "demo/content.h"
#include "demo/pause.h"

namespace spillway::demo {

std::string_view Name(AgentState state) {
  switch (state) {
    case AgentState::kIdle:
      return "idle";
    case AgentState::kReading:
      return "reads";
    case AgentState::kRecomputing:
      return "recomputes";
    case AgentState::kThinking:
      return "thinks";
    case AgentState::kWriting:
      return "writes";
  }
  return "";
}

AgentCounts& AgentCounts::operator+=(const AgentCounts& other) {
  turns += other.turns;
  blocks_found += other.blocks_found;
  blocks_missed += other.blocks_missed;
  tokens_found += other.tokens_found;
  tokens_recomputed += other.tokens_recomputed;
  sets_refused += other.sets_refused;
  bytes_checked += other.bytes_checked;
  wrong_bytes += other.wrong_bytes;
  resumes += other.resumes;
  resumed_tokens += other.resumed_tokens;
  resume_time += other.resume_time;
  failures += other.failures;
  return *this;
}

Agent::Agent(std::string name, Conversation shape, AgentSettings settings,
             std::unique_ptr<Contexts> contexts, Witness* witness)
    : name_(std::move(name)),
      settings_(settings),
      witness_(witness),
      contexts_(std::move(contexts)),
      context_(name_, shape) {
  view_.name = name_;
  Show(AgentState::kIdle);
}

void Agent::TakeTurn(const std::stop_token& stop) {
  Show(AgentState::kReading);
  const Result<std::size_t> found = ReadChain();
  if (!found) return GiveUp(found.error(), stop);

  const Tokens asked = context_.tokens();
  Tokens missing = 0;
  for (std::size_t i = *found; i < context_.blocks().size(); ++i)
    missing += context_.blocks()[i].tokens;
  if (missing > 0) {
    Show(AgentState::kRecomputing);
    if (!PauseFor(stop, missing * settings_.prefill_per_token)) return;
    if (const Status computed = Write(); !computed) return GiveUp(computed.error(), stop);
  }
  Show(AgentState::kThinking);
  if (!PauseFor(stop, settings_.think)) return;

  Show(AgentState::kWriting);
  const int conversation = context_.conversation();
  context_.AppendTurn();
  // What a new conversation begins with is the next turn's to compute.
  const Status written = context_.conversation() == conversation ? Write() : Forget();
  if (!written) return GiveUp(written.error(), stop);
  {
    const std::lock_guard lock(mutex_);
    ++counts_.turns;
    counts_.tokens_recomputed += missing;
  }
  if (witness_ != nullptr) witness_->Ended(name_, context_.blocks(), asked, asked - missing);
  Show(AgentState::kIdle);
}

Result<std::size_t> Agent::ReadChain() {
  const std::vector<std::string_view> keys = Keys();
  std::size_t found = 0;  // A chain reaches as far as its first gap.
  AgentCounts seen;
  const auto began = std::chrono::steady_clock::now();
  const Status read = contexts_->Read(keys, [&](std::size_t i, const Found& block) {
    if (i == found && block.there) ++found;
    Check(i, block, &seen);
  });
  const Duration took = std::chrono::steady_clock::now() - began;
  if (!read) return read.error();
  for (std::size_t i = 0; i < found; ++i) seen.tokens_found += context_.blocks()[i].tokens;
  seen.blocks_found = found;
  seen.blocks_missed = keys.size() - found;
  const bool resumed = found == keys.size();
  if (resumed) {
    seen.resumes = 1;
    seen.resumed_tokens = seen.tokens_found;
    seen.resume_time = took;
  }
  if (witness_ != nullptr) witness_->Began(name_, context_.blocks(), found);
  const std::lock_guard lock(mutex_);
  counts_ += seen;
  view_.blocks_asked = keys.size();
  view_.blocks_found = found;
  view_.resume = resumed ? took : Duration::zero();
  view_.resumed = resumed ? seen.tokens_found : 0;
  view_.resumes = counts_.resumes;
  return found;
}

void Agent::Check(std::size_t i, const Found& found, AgentCounts* seen) const {
  if (!found.there) return;
  const Block& block = context_.blocks()[i];
  const auto expected = static_cast<Bytes>(block.tokens) * settings_.bytes_per_token;
  seen->bytes_checked += found.bytes.size();
  seen->wrong_bytes += found.bytes.size() != expected || found.tokens != block.tokens
                           ? expected
                           : CountWrongBytes(SeedOf(block.key), found.bytes);
}

Status Agent::Write() {
  const std::vector<Block>& blocks = context_.blocks();
  // Another agent may have written the shared prompt meanwhile; writing it
  // again would cut off everybody's chain behind it.
  const Result<std::size_t> there = contexts_->Match(Keys());
  if (!there) return there.error();
  std::size_t end = *there;
  for (; end < blocks.size(); ++end) {
    const Status set = SetBlock(blocks[end]);
    if (set) continue;
    if (set.error().code != Code::kBlocked) return set;
    // Behind a refused block nothing would ever be found: the chain ends there.
    const std::lock_guard lock(mutex_);
    ++counts_.sets_refused;
    break;
  }
  return ReadBack(*there, end);
}

Status Agent::ReadBack(std::size_t from, std::size_t to) {
  if (from == to) return {};
  AgentCounts seen;
  const std::vector<std::string_view> keys = Keys();
  const Status read =
      contexts_->Read(std::span(keys).subspan(from, to - from),
                      [&](std::size_t i, const Found& found) { Check(from + i, found, &seen); });
  const std::lock_guard lock(mutex_);
  counts_ += seen;
  return read;
}

std::vector<std::string_view> Agent::Keys() const {
  std::vector<std::string_view> keys;
  keys.reserve(context_.blocks().size());
  for (const Block& block : context_.blocks()) keys.push_back(block.key);
  return keys;
}

Status Agent::SetBlock(const Block& block) {
  buffer_.resize(static_cast<Bytes>(block.tokens) * settings_.bytes_per_token);
  FillContent(SeedOf(block.key), buffer_);
  return contexts_->Set(block, name_, buffer_);
}

Status Agent::Forget() {
  const std::vector<std::string> over = context_.TakeForgotten();
  const std::vector<std::string_view> keys(over.begin(), over.end());
  if (witness_ != nullptr) witness_->Forgot(over);
  return contexts_->Forget(keys);
}

void Agent::GiveUp(const Error& why, const std::stop_token& stop) {
  {
    const std::lock_guard lock(mutex_);
    ++counts_.failures;
    view_.trouble = why.message;
  }
  (void)PauseFor(stop, settings_.think);
  Show(AgentState::kIdle);
}

void Agent::Show(AgentState state) {
  const std::lock_guard lock(mutex_);
  view_.state = state;
  view_.conversation = context_.conversation();
  view_.turn = context_.turn();
  view_.tokens = context_.tokens();
  view_.blocks = context_.blocks().size();
}

AgentView Agent::view() const {
  const std::lock_guard lock(mutex_);
  return view_;
}

AgentCounts Agent::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace spillway::demo
