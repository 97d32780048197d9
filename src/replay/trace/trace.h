// SPDX-License-Identifier: Apache-2.0
// A trace in memory: requests in order of time, each with a chain of blocks. A chain is stored as a
// change of the stream's previous chain (how many leading blocks stay, and the new ones), so that a
// trace of a hundred million references needs little memory.
//
// Block numbers are dense and stand for whole prefixes: the same number always has the same parent.
// Equal traces get equal numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "replay/order/block_cache.h"

namespace spillway {

// One request.
struct TraceRequest {
  std::int64_t at_ms = 0;
  std::uint64_t session = 0;
  std::uint64_t tokens = 0;  // Of the input.
  std::uint32_t state = 0;   // What the session waits for afterwards. 0: unknown.
  std::int8_t again = -1;    // A hint in the trace itself: 0 or 1; -1: none.
  bool done = false;         // A hint in the trace itself.
  std::uint32_t stream = 0;
  std::uint32_t kept = 0;   // Leading blocks kept from the stream's previous chain.
  std::uint64_t begin = 0;  // The new blocks: their index in Trace::blocks,
  std::uint32_t count = 0;  // and how many.
};

// A whole trace. TraceBuilder makes it; it does not change afterwards.
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
  std::size_t bad_lines = 0;  // Malformed lines that were skipped.
};

// Iterates over the requests and rebuilds the chain of each.
class TraceWalk {
 public:
  explicit TraceWalk(const Trace& trace) : trace_(trace), chains_(trace.streams) {}
  // Returns the chain of the next request, valid until the next call. Requires
  // more().
  std::span<const BlockId> Next();
  bool more() const { return next_ < trace_.requests.size(); }
  std::size_t next() const { return next_; }

 private:
  const Trace& trace_;
  std::vector<std::vector<BlockId>> chains_;
  std::size_t next_ = 0;
};

// Builds a trace from what a format reads line by line.
class TraceBuilder {
 public:
  // `group` raw ids make a block; fewer at the end are dropped.
  explicit TraceBuilder(std::uint32_t group) : group_(group == 0 ? 1 : group) {}

  // A sequence of requests whose chains grow from one another.
  struct Stream {
    std::uint32_t number;
    std::size_t length;  // Number of raw ids in its last chain.
    std::int64_t at_ms;  // Time of its last request.
  };
  // Finds or adds the stream named `key`.
  Stream StreamOf(const std::string& key);
  // The number of the session named `key`.
  std::uint64_t SessionOf(const std::string& key);

  // Adds a request: `kept` leading raw ids of the stream's previous chain, then the `fresh` ids.
  // Equal ids in one `scope` at the start of a chain are the same block.
  void Add(TraceRequest request, std::uint32_t stream, std::size_t kept,
           std::span<const std::uint64_t> fresh, std::uint32_t scope);

  // Whether anything was added.
  bool empty() const { return trace_.requests.empty(); }
  // Returns the trace, in order of time.
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
  // A stream's last chain, as raw ids and as blocks.
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
