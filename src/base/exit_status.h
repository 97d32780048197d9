// SPDX-License-Identifier: Apache-2.0
// Exit statuses of programs, besides 0 and 1.
#pragma once

namespace spillway {

inline constexpr int kBadUse = 2;  // Invalid arguments.

}  // namespace spillway
