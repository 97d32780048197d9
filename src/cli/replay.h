#pragma once

namespace spillway {

int RunReplay(int argc, char** argv);

}  // namespace spillway
