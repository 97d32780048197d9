#include "demo/agent.h"

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
  return *this;
}

Agent::Agent(std::string name, Conversation shape, AgentSettings settings, Cache* cache)
    : name_(std::move(name)), settings_(settings), cache_(cache), context_(name_, shape) {
  view_.name = name_;
  Show(AgentState::kIdle);
}

void Agent::TakeTurn(const std::stop_token& stop) {
  Show(AgentState::kReading);
  std::vector<Lease> leases;  // Held while it thinks: what a turn reads stays.
  const std::size_t found = ReadChain(&leases);

  Tokens missing = 0;
  for (std::size_t i = found; i < context_.blocks().size(); ++i)
    missing += context_.blocks()[i].tokens;
  if (missing > 0) {
    Show(AgentState::kRecomputing);
    if (!PauseFor(stop, missing * settings_.prefill_per_token)) return;
    Write();
  }
  Show(AgentState::kThinking);
  if (!PauseFor(stop, settings_.think)) return;

  Show(AgentState::kWriting);
  const int conversation = context_.conversation();
  context_.AppendTurn();
  // What a new conversation begins with is the next turn's to compute.
  if (context_.conversation() == conversation) Write();
  leases.clear();
  {
    const std::lock_guard lock(mutex_);
    ++counts_.turns;
    counts_.tokens_recomputed += missing;
  }
  Show(AgentState::kIdle);
}

std::size_t Agent::ReadChain(std::vector<Lease>* leases) {
  const std::vector<Block>& blocks = context_.blocks();
  const std::vector<std::string_view> keys = Keys();
  *leases = cache_->GetChain(keys);
  // A chain says how far it reaches; the misses behind that are counted when
  // they are asked for by name.
  for (std::size_t i = leases->size(); i < keys.size(); ++i) (void)cache_->Get(keys[i]);

  AgentCounts seen;
  seen.blocks_found = leases->size();
  seen.blocks_missed = blocks.size() - leases->size();
  for (std::size_t i = 0; i < leases->size(); ++i) {
    const Lease& lease = (*leases)[i];
    const auto expected = static_cast<Bytes>(blocks[i].tokens) * settings_.bytes_per_token;
    seen.tokens_found += blocks[i].tokens;
    seen.bytes_checked += lease.size();
    seen.wrong_bytes += lease.size() != expected
                            ? expected
                            : CountWrongBytes(SeedOf(blocks[i].key), {lease.data(), lease.size()});
  }
  const std::lock_guard lock(mutex_);
  counts_ += seen;
  view_.blocks_found = leases->size();
  return leases->size();
}

void Agent::Write() {
  const std::vector<Block>& blocks = context_.blocks();
  // Another agent may have written the shared prompt meanwhile; writing it
  // again would cut off everybody's chain behind it.
  for (std::size_t i = cache_->Match(Keys()); i < blocks.size(); ++i) {
    // Behind a refused block nothing would ever be found: the chain ends there.
    if (!SetBlock(blocks[i])) return;
  }
}

std::vector<std::string_view> Agent::Keys() const {
  std::vector<std::string_view> keys;
  keys.reserve(context_.blocks().size());
  for (const Block& block : context_.blocks()) keys.push_back(block.key);
  return keys;
}

bool Agent::SetBlock(const Block& block) {
  buffer_.resize(static_cast<Bytes>(block.tokens) * settings_.bytes_per_token);
  FillContent(SeedOf(block.key), buffer_);
  const Status set = cache_->Set(block.key, Source(buffer_.data(), buffer_.size()),
                                 {.tokens = block.tokens, .agent = name_, .parent = block.parent});
  if (set) return true;
  const std::lock_guard lock(mutex_);
  ++counts_.sets_refused;
  return false;
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
