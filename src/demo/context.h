// A context as an agent sees it: a chain of blocks, each continuing the one
// before. First the system prompt, which all agents share, then the agent's own
// prefix, then the turns of one conversation, a tool's output and an answer
// each. Names only: no bytes, no cache.
#pragma once

#include <string>
#include <vector>

#include "spillway/units.h"

namespace spillway::demo {

struct Block {
  std::string key;
  std::string parent;  // Key of the block before; empty for the first.
  Tokens tokens = 0;
};

// How many turns an agent has behind it when it comes, after how many it begins
// anew, and what it takes along then.
struct Conversation {
  int turns_at_first = 13;
  int turns_most = 18;
  int turns_kept = 6;
};

class Context {
 public:
  Context(std::string agent, Conversation shape);

  const std::vector<Block>& blocks() const { return blocks_; }
  Tokens tokens() const;
  int conversation() const { return conversation_; }
  int turn() const { return turn_; }

  // Adds the next turn. After the last one a new conversation begins first.
  void AppendTurn();
  // Keys of conversations that are over since the last call: wanted by nobody.
  std::vector<std::string> TakeForgotten();

 private:
  void BeginConversation(int turns);
  void Append(std::string key, Tokens tokens);

  const std::string agent_;
  const Conversation shape_;
  std::vector<Block> blocks_;
  std::vector<std::string> forgotten_;
  int conversation_ = 0;
  int turn_ = 0;
};

}  // namespace spillway::demo
