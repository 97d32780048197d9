// SPDX-License-Identifier: Apache-2.0
// Runs a program as a user would and keeps its output.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace spillway {

struct ProgramRun {
  int status = -1;  // Its exit status; -1: it did not exit.
  std::string out;
  std::string err;
};

inline std::string FileText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// `command` is a shell's; `input` becomes its standard input.
inline ProgramRun RunProgram(std::string_view command, std::string_view input = {}) {
  const std::string base = fmt::format("{}/spillway-{}-", ::testing::TempDir(), getpid());
  std::ofstream(base + "in", std::ios::binary) << input;
  const std::string full =
      fmt::format("( {} ) <'{}in' >'{}out' 2>'{}err'", command, base, base, base);
  const int status = std::system(full.c_str());
  ProgramRun run;
  if (WIFEXITED(status)) run.status = WEXITSTATUS(status);
  run.out = FileText(base + "out");
  run.err = FileText(base + "err");
  for (const char* name : {"in", "out", "err"}) unlink((base + name).c_str());
  return run;
}

}  // namespace spillway
