// SPDX-License-Identifier: Apache-2.0
// Writing values for commands. A write that can't be done at once suspends its
// command with a continuation: only the write itself is tried again, never what the
// command has done before it.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "server/command.h"

namespace spillway::server {

// What a write came to. kRefused: no tier may take it. kFailed: it has been answered.
enum class Stored : std::uint8_t { kYes, kRefused, kFailed, kRoom, kDisk };
inline bool Waits(Stored stored) { return stored == Stored::kRoom || stored == Stored::kDisk; }

// Word `value_at` of the request, under a key, for `deadline`. The views live as long
// as the call.
struct Write {
  std::string_view key;  // As the cache knows it.
  std::size_t value_at = 0;
  SetOptions options;
  TimePoint deadline = TimePoint::max();
};

// The bytes of a value; those that have arrived in the session's room are there.
std::string_view BytesOf(const Call& call, std::size_t value_at);

// Tries once. kRoom and kDisk: AwaitWrite it, or leave it undone.
Stored TryWrite(Call& call, const Write& write);
// Suspends the command until a write that answered `why` is done or refused.
using AfterWrite = std::move_only_function<void(Call&, Stored)>;
void AwaitWrite(Call& call, Stored why, const Write& write, AfterWrite then);
// Both: `then` is called now or later, with kYes, kRefused or kFailed.
template <typename Then>
void DoWrite(Call& call, const Write& write, Then then) {
  const Stored stored = TryWrite(call, write);
  Waits(stored) ? AwaitWrite(call, stored, write, std::move(then)) : then(call, stored);
}

// Instead of a write that was refused: drops the key or refuses, as on_blocked says.
// True: dropped, and to be acknowledged.
bool DropInstead(Call& call, std::string_view key, std::string_view cache_key);
// The error for a write that was refused.
void Refuse(Call& call);

}  // namespace spillway::server
