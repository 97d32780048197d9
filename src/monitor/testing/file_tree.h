// SPDX-License-Identifier: Apache-2.0
// A folder of files for one test, such as a machine's /sys and /proc.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "monitor/machine.h"

namespace spillway::testing {

class FileTree {
 public:
  FileTree() {
    std::string pattern = ::testing::TempDir() + "spillway-tree-XXXXXX";
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  ~FileTree() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  FileTree(const FileTree&) = delete;
  FileTree& operator=(const FileTree&) = delete;

  std::string Path(std::string_view file) const { return root_ + "/" + std::string(file); }

  // Replaces the whole file at once, as the kernel's files change: a reader
  // never sees half of it.
  void Write(std::string_view file, std::string_view text) const {
    const std::filesystem::path path = Path(file);
    std::filesystem::create_directories(path.parent_path());
    const std::string beside = path.string() + ".new";
    std::ofstream(beside, std::ios::binary) << text;
    std::filesystem::rename(beside, path);
  }
  // Changes the file in place: open descriptors see the change, as with the kernel's files.
  void Overwrite(std::string_view file, std::string_view text) const {
    std::ofstream(Path(file), std::ios::binary | std::ios::trunc) << text;
  }
  void Remove(std::string_view file) const { std::filesystem::remove_all(Path(file)); }

  // A machine with its /sys and /proc in here and no libraries.
  spillway::Machine Machine() const {
    spillway::Machine machine;
    machine.sys = Path("sys");
    machine.proc = Path("proc");
    machine.nvml = machine.cuda = machine.rocm_smi = machine.amd_smi = {};
    return machine;
  }

 private:
  std::string root_;
};

}  // namespace spillway::testing
