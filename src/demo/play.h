// Plays the demo: looks at the stage fifty times a second and shows it, as a
// table where there is a terminal, as lines elsewhere.
#pragma once

#include "demo/options.h"
#include "spillway/result.h"

namespace spillway::demo {

// To `options.out`, until it is over, somebody stops it or nobody watches any
// more. The exit code: 0, or 1 if a byte was wrong.
Result<int> Play(const DemoOptions& options);

}  // namespace spillway::demo
