// SPDX-License-Identifier: Apache-2.0
// `spillway demo`: tells where the demo program is.
#pragma once

namespace spillway {

int RunDemo(int argc, char** argv);

}  // namespace spillway
