// SPDX-License-Identifier: Apache-2.0
// Suppresses what a library writes to standard error during one call. The
// descriptor belongs to the whole process, so this is for calls that are rare
// and short, and it ends after a time limit even if the call does not. Messages
// of our own log are still written.
#pragma once

#include "spillway/units.h"

namespace spillway {

class QuietStderr {
 public:
  explicit QuietStderr(Duration most);
  ~QuietStderr();
  QuietStderr(const QuietStderr&) = delete;
  QuietStderr& operator=(const QuietStderr&) = delete;

  // The original standard error. Any thread; takes no lock.
  static int Real() noexcept;
};

}  // namespace spillway
