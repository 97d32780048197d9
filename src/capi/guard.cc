// SPDX-License-Identifier: Apache-2.0
#include "capi/guard.h"

#include <array>

namespace spillway::capi {

namespace {
thread_local std::array<char, 512> last_message{};
}  // namespace

// SPILLWAY_OK is 0, so each code is one more than ours.
spillway_code CodeOf(Code code) {
  static_assert(static_cast<int>(Code::kInvalidArgument) + 1 == SPILLWAY_INVALID_ARGUMENT);
  static_assert(static_cast<int>(Code::kDeadline) + 1 == SPILLWAY_DEADLINE);
  static_assert(static_cast<int>(Code::kInternal) + 1 == SPILLWAY_INTERNAL);
  static_assert(static_cast<int>(Code::kCorrupt) + 1 == SPILLWAY_CORRUPT);
  return static_cast<spillway_code>(static_cast<int>(code) + 1);
}

void CopyMessage(std::string_view message, char* to, std::size_t capacity) noexcept {
  to[message.copy(to, capacity - 1)] = 0;
}

spillway_code Fail(Code code, std::string_view message) noexcept {
  CopyMessage(message, last_message.data(), last_message.size());
  return CodeOf(code);
}

const char* LastMessage() noexcept { return last_message.data(); }

}  // namespace spillway::capi
