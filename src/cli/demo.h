// `spillway demo [--for 20s] [--card-size 512MiB] [--record FILE.csv]`
#pragma once

namespace spillway {

int RunDemo(int argc, char** argv);

}  // namespace spillway
