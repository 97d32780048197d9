// An agent of the demo: it has a context and takes turns. Each turn it leases
// the part of its chain that is still cached, checks every byte of it,
// recomputes the rest, thinks, and adds what was said.
//
// No model runs. Recomputing is writing the right bytes after the time that a
// model would need for it: that time is declared, not measured, and everything
// made from it is marked so.
#pragma once

#include <cstdint>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "demo/context.h"
#include "spillway/cache.h"
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

  AgentCounts& operator+=(const AgentCounts& other);
};

// One agent at one moment.
struct AgentView {
  std::string name;
  AgentState state = AgentState::kIdle;
  int conversation = 0;
  int turn = 0;
  Tokens tokens = 0;             // Of its whole context.
  std::size_t blocks = 0;        // Of its whole context.
  std::size_t blocks_found = 0;  // Still cached when its last turn began.
};

class Agent {
 public:
  // `cache` is borrowed.
  Agent(std::string name, Conversation shape, AgentSettings settings, Cache* cache);

  // One thread at a time; ends early once `stop` is requested.
  void TakeTurn(const std::stop_token& stop);

  const std::string& name() const { return name_; }
  // From any thread.
  AgentView view() const;
  AgentCounts counts() const;

 private:
  std::size_t ReadChain(std::vector<Lease>* leases);
  // Sets what is not cached, in order, as far as the cache takes it.
  void Write();
  std::vector<std::string_view> Keys() const;
  bool SetBlock(const Block& block);
  void Show(AgentState state);

  const std::string name_;
  const AgentSettings settings_;
  Cache* const cache_;

  // The turn's thread only.
  Context context_;
  std::vector<std::byte> buffer_;

  mutable std::mutex mutex_;
  AgentView view_;      // Guarded by mutex_.
  AgentCounts counts_;  // Guarded by mutex_.
};

}  // namespace spillway::demo
