#pragma once

namespace spillway {

int RunSimulate(int argc, char** argv);

}  // namespace spillway
