// An agent of the demo: it has a context and takes turns. Each turn it reads
// the part of its chain that is still cached, checks every byte of it,
// recomputes the rest, thinks, and adds what was said. What a conversation that
// is over leaves behind it has forgotten.
//
// No model runs. Recomputing is writing the right bytes after the time that a
// model would need for it: that time is declared, not measured, and everything
// made from it is marked so.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "demo/context.h"
#include "demo/contexts.h"
#include "demo/witness.h"
#include "spillway/units.h"

namespace spillway::demo {

enum class AgentState : std::uint8_t { kIdle, kReading, kRecomputing, kThinking, kWriting };
std::string_view Name(AgentState state);

struct AgentSettings {
  Bytes bytes_per_token = 4 * kKiB;
  Duration prefill_per_token = std::chrono::microseconds(43);  // Declared.
  Duration think = std::chrono::milliseconds(80);
};

// What agents have seen. Blocks, not turns: a turn reads many.
struct AgentCounts {
  std::uint64_t turns = 0;
  std::uint64_t blocks_found = 0;
  std::uint64_t blocks_missed = 0;
  Tokens tokens_found = 0;
  Tokens tokens_recomputed = 0;
  std::uint64_t sets_refused = 0;  // The turn went on without.
  Bytes bytes_checked = 0;
  std::uint64_t wrong_bytes = 0;
  std::uint64_t resumes = 0;  // Turns that found all of their context.
  Tokens resumed_tokens = 0;
  Duration resume_time{};      // Measured: from asking to having checked the last byte.
  std::uint64_t failures = 0;  // Turns given up: nobody answered, or with an error.

  AgentCounts& operator+=(const AgentCounts& other);
};

// One agent at one moment.
struct AgentView {
  std::string name;
  AgentState state = AgentState::kIdle;
  int conversation = 0;
  int turn = 0;
  Tokens tokens = 0;       // Of its whole context.
  std::size_t blocks = 0;  // Of its whole context.
  // When its last turn began: what it had then, and of that, still cached.
  std::size_t blocks_asked = 0;
  std::size_t blocks_found = 0;
  Duration resume{};          // How long reading all of it took then; zero: not all was there.
  Tokens resumed = 0;         // Tokens of it.
  std::uint64_t resumes = 0;  // So often up to now.
  std::string trouble;        // Why it last gave up a turn; empty: it never did.
};

class Agent {
 public:
  Agent(std::string name, Conversation shape, AgentSettings settings,
        std::unique_ptr<Contexts> contexts, Witness* witness = nullptr);

  // One thread at a time; ends early once `stop` is requested.
  void TakeTurn(const std::stop_token& stop);

  const std::string& name() const { return name_; }
  // All it knows, by key. Between turns.
  const std::vector<Block>& blocks() const { return context_.blocks(); }
  // Where its contexts are has gone and come again. Between turns.
  void Renew() { contexts_->Renew(); }
  // From any thread.
  AgentView view() const;
  AgentCounts counts() const;

 private:
  // How many blocks of the chain are there.
  Result<std::size_t> ReadChain();
  void Check(std::size_t i, const Found& found, AgentCounts* seen) const;
  // Sets what is not cached, in order, as far as it is taken, and reads that back.
  Status Write();
  Status ReadBack(std::size_t from, std::size_t to);
  std::vector<std::string_view> Keys() const;
  Status SetBlock(const Block& block);
  Status Forget();
  // The turn ends here, after a while: nobody answers.
  void GiveUp(const Error& why, const std::stop_token& stop);
  void Show(AgentState state);

  const std::string name_;
  const AgentSettings settings_;
  Witness* const witness_;  // May be null.

  // The turn's thread only.
  const std::unique_ptr<Contexts> contexts_;
  Context context_;
  std::vector<std::byte> buffer_;

  mutable std::mutex mutex_;
  AgentView view_;      // Guarded by mutex_.
  AgentCounts counts_;  // Guarded by mutex_.
};

}  // namespace spillway::demo
