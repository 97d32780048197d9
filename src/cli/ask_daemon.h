// spillway stats and spillway explain: what a running spillwayd says of itself.
#pragma once

namespace spillway {

int RunStats(int argc, char** argv);
int RunExplain(int argc, char** argv);

}  // namespace spillway
