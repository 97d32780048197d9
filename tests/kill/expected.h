// SPDX-License-Identifier: Apache-2.0
// What the cache of a killed process must still know: shared memory of the children
// that load the cache and of the parent that kills them. A kill loses no store into
// this memory, as it loses no write(2).
//
// Every key has one writer at a time. Before a write the key is pending, from its old
// to its new version; once the cache has answered, the new version is the only valid
// one (`firm`). Also recorded: what the cache reports of itself (Options::on_event),
// that is, which version is known to be on disk, and which one has been evicted.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace spillway::kill {

// Version 0: there is no such entry.
struct KeyState {
  std::atomic<std::uint32_t> firm{0};
  std::atomic<std::uint32_t> pending{0};  // The version being written, if any.
  std::atomic<std::uint32_t> is_pending{0};
  std::atomic<std::uint32_t> last{0};     // The last version ever given out.
  std::atomic<std::uint32_t> on_disk{0};  // Copied to disk, and not dropped there since.
  std::atomic<std::uint32_t> left{0};     // Destroyed, and the cache has said so.
};

struct Counts {
  // Verified after a restart.
  std::atomic<std::uint64_t> keys{0};
  std::atomic<std::uint64_t> hits{0};
  std::atomic<std::uint64_t> misses_never_set{0};  // Or erased, with an answer.
  std::atomic<std::uint64_t> misses_pending{0};
  std::atomic<std::uint64_t> misses_not_on_disk{0};
  std::atomic<std::uint64_t> misses_left{0};
  std::atomic<std::uint64_t> must_be_there{0};  // Of `keys`: with an answered write, and on disk.
  // While it ran.
  std::atomic<std::uint64_t> sets{0};
  std::atomic<std::uint64_t> sets_refused{0};
  std::atomic<std::uint64_t> gets{0};
  std::atomic<std::uint64_t> erases{0};
  std::atomic<std::uint64_t> backed{0};  // Copies that reached the disk.
  // Must be 0.
  std::atomic<std::uint64_t> wrong_bytes{0};
  // Right bytes of a version that was already replaced before the kill.
  std::atomic<std::uint64_t> stale{0};
  std::atomic<std::uint64_t> unexplained{0};
  std::atomic<std::uint64_t> errors{0};
  // Of the present child.
  std::atomic<std::uint64_t> first_get_ns{0};  // From Open to the first hit; 0: there was none.
  std::atomic<std::uint64_t> verified_ns{0};   // From Open until all keys were verified.
};

class Expected {
 public:
  // Children inherit it.
  explicit Expected(std::size_t keys);
  ~Expected();
  Expected(const Expected&) = delete;
  Expected& operator=(const Expected&) = delete;

  std::size_t keys() const { return keys_; }
  KeyState& key(std::size_t at) { return states_[at]; }
  Counts& counts() { return *counts_; }
  // Nothing is expected any more: the cache starts with an empty folder.
  void Forget();

 private:
  const std::size_t keys_;
  const std::size_t bytes_;
  void* map_ = nullptr;
  Counts* counts_ = nullptr;
  KeyState* states_ = nullptr;
};

// Keys, sizes and bytes are computed from numbers alone.
std::string NameOf(std::size_t key);
// The number of a name; keys() or more: it is no name of this test.
std::size_t KeyOf(std::string_view name);
// From 1 byte to 2 MiB, each order of magnitude equally likely.
std::size_t SizeOf(std::size_t key, std::uint32_t version);
void FillValue(std::size_t key, std::uint32_t version, std::string* value);
bool IsValue(std::size_t key, std::uint32_t version, const void* data, std::size_t bytes);

}  // namespace spillway::kill
