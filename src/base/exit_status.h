// What a program's exit status says, beside 0 and 1.
#pragma once

namespace spillway {

inline constexpr int kBadUse = 2;  // Its arguments were wrong.

}  // namespace spillway
