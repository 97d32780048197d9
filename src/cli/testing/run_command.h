// SPDX-License-Identifier: Apache-2.0
// Runs a command as main.cc does, in the test's own process, and keeps its output.
#pragma once

#include <stdlib.h>

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace spillway::testing {

struct Ran {
  int exit_code;
  std::string out;
  std::string err;
};

// The GPUs of this machine must not matter to a test that names no library.
inline void WithoutGpus() {
  for (const char* library :
       {"SPILLWAY_NVML_LIBRARY", "SPILLWAY_CUDA_LIBRARY", "SPILLWAY_HIP_LIBRARY",
        "SPILLWAY_ROCM_SMI_LIBRARY", "SPILLWAY_AMD_SMI_LIBRARY"}) {
    ::setenv(library, "", 0);
  }
}

// `name` is passed as argv[0].
inline Ran RunCommand(int (*command)(int argc, char** argv), std::string_view name,
                      std::vector<std::string> arguments) {
  WithoutGpus();
  arguments.insert(arguments.begin(), std::string(name));
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const int exit_code = command(static_cast<int>(arguments.size()), argv.data());
  return {exit_code, ::testing::internal::GetCapturedStdout(),
          ::testing::internal::GetCapturedStderr()};
}

}  // namespace spillway::testing
