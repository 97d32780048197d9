// SPDX-License-Identifier: Apache-2.0
// The program on machines with fake drivers: the libraries it finds, the cards there
// are, and a run directory of its own.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "device/testing/fake_gpu.h"
#include "device/testing/scratch_run_dir.h"
#include "monitor/testing/file_tree.h"
#include "run_program.h"

namespace spillway {

class GpuCommands : public ::testing::TestWithParam<GpuKind> {
 protected:
  GpuCommands() {
    // A machine with nothing at all.
    for (const char* library : {"NVML", "CUDA", "HIP", "ROCM_SMI", "AMD_SMI"}) {
      environment_[fmt::format("SPILLWAY_{}_LIBRARY", library)] = "";
    }
    environment_["SPILLWAY_SYS_ROOT"] = tree_.Path("sys");
    environment_["SPILLWAY_PROC_ROOT"] = tree_.Path("proc");
    environment_["SPILLWAY_STATE_DIR"] = tree_.Path("state");
  }

  std::string kind() const { return std::string(Name(GetParam())); }
  // Cards of the vendor under test, or of another.
  void HaveGpus(const testing::FakeGpuOptions& options, std::string_view variant = {}) {
    HaveGpus(GetParam(), options, variant);
  }
  void HaveGpus(GpuKind kind, const testing::FakeGpuOptions& options,
                std::string_view variant = {}) {
    environment_[kind == GpuKind::kCuda ? "SPILLWAY_CUDA_LIBRARY" : "SPILLWAY_HIP_LIBRARY"] =
        testing::FakeGpu::Library(kind, SPILLWAY_FAKES_DIR, variant);
    environment_["SPILLWAY_FAKE_GPU"] = options.Text();
  }
  ProgramRun Spillway(std::string_view arguments) const {
    std::string command = "env";
    for (const auto& [name, value] : environment_) command += fmt::format(" {}='{}'", name, value);
    return RunProgram(fmt::format("{} {} {}", command, SPILLWAY_BIN, arguments));
  }

  static constexpr std::string_view kUuid = "GPU-5b1e0c2f-7a44-4d8e-9c31-d2f60a8b7e00";
  static constexpr std::string_view kSecond = "GPU-5b1e0c2f-7a44-4d8e-9c31-d2f60a8b7e01";

  testing::ScratchRunDir run_dir_;  // Sets SPILLWAY_RUN_DIR, which children inherit.
  testing::FileTree tree_;
  std::map<std::string, std::string> environment_;
};

inline std::string KindName(const ::testing::TestParamInfo<GpuKind>& kind) {
  return std::string(Name(kind.param));
}

}  // namespace spillway
