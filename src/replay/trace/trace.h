// A trace in memory: requests in order of time, each a chain of blocks. Chains
// are kept as they grow (how much of the stream's previous one stays, and what
// is new), so that a trace of a hundred million references takes little room.
//
// Block numbers are dense and name whole prefixes: the same number always has
// the same parent. Two traces that say the same give the same numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "policy/block_cache.h"

namespace spillway {

struct TraceRequest {
  std::int64_t at_ms = 0;
  std::uint64_t session = 0;
  std::uint64_t tokens = 0;  // Of the input.
  std::uint32_t state = 0;   // What its session waits for afterwards; 0: unknown.
  std::int8_t again = -1;    // A hint in the trace itself: 0, 1; -1: none.
  bool done = false;         // The same.
  std::uint32_t stream = 0;
  std::uint32_t kept = 0;   // Leading blocks of the stream's previous chain.
  std::uint64_t begin = 0;  // What is new: where in the trace's blocks, and
  std::uint32_t count = 0;  // how many.
};

class Trace {
 public:
  std::string name;
  std::string format;
  std::uint32_t block_tokens = 0;
  std::vector<TraceRequest> requests;
  std::vector<BlockId> blocks;
  std::uint32_t streams = 0;
  std::size_t unique_blocks = 0;
  std::uint64_t references = 0;
  std::uint64_t input_tokens = 0;
  std::size_t bad_lines = 0;  // Skipped.
};

// Goes through the requests and shows the chain of each.
class TraceWalk {
 public:
  explicit TraceWalk(const Trace& trace) : trace_(trace), chains_(trace.streams) {}
  // The chain of the next request; it lives until the next call. Only while
  // there is one.
  std::span<const BlockId> Next();
  bool more() const { return next_ < trace_.requests.size(); }
  std::size_t next() const { return next_; }

 private:
  const Trace& trace_;
  std::vector<std::vector<BlockId>> chains_;
  std::size_t next_ = 0;
};

// Makes a trace of what a reader finds, line by line.
class TraceBuilder {
 public:
  // `group` raw ids make a block; a rest of fewer is left out.
  explicit TraceBuilder(std::uint32_t group) : group_(group == 0 ? 1 : group) {}

  struct Stream {
    std::uint32_t number;
    std::size_t length;  // Raw ids of its last chain.
    std::int64_t at_ms;  // Of its last request.
  };
  // The stream `key` names; made when it is new.
  Stream StreamOf(const std::string& key);
  // A number for a session's name.
  std::uint64_t SessionOf(const std::string& key);

  // `kept` leading raw ids of the stream's previous chain, and `fresh` ones
  // behind them. Ids of one `scope` are the same wherever they stand first.
  void Add(TraceRequest request, std::uint32_t stream, std::size_t kept,
           std::span<const std::uint64_t> fresh, std::uint32_t scope);

  // Whether anything was added.
  bool empty() const { return trace_.requests.empty(); }
  // All of it, in order of time.
  Trace Finish();

 private:
  struct Key {
    std::uint64_t raw;
    BlockId parent;
    std::uint32_t scope;
    bool operator==(const Key&) const = default;
  };
  struct HashKey {
    std::size_t operator()(const Key& key) const;
  };
  struct Growing {
    std::vector<std::uint64_t> raw;
    std::vector<BlockId> blocks;
    std::int64_t at_ms = 0;
  };

  const std::uint32_t group_;
  Trace trace_;
  std::unordered_map<Key, BlockId, HashKey> ids_;
  std::unordered_map<std::string, std::uint32_t> stream_numbers_;
  std::unordered_map<std::string, std::uint64_t> session_numbers_;
  std::vector<Growing> growing_;
};

}  // namespace spillway
