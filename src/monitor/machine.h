// SPDX-License-Identifier: Apache-2.0
// The file trees and libraries by which the monitor reads the machine. Tests
// substitute their own.
#pragma once

#include <string>
#include <vector>

namespace spillway {

struct Machine {
  std::string sys = "/sys";
  std::string proc = "/proc";
  // Names to try, in this order.
  std::vector<std::string> nvml = {"libnvidia-ml.so.1", "libnvidia-ml.so"};
  std::vector<std::string> cuda = {"libcuda.so.1", "libcuda.so"};
  std::vector<std::string> hip = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
                                  "libamdhip64.so", "/opt/rocm/lib/libamdhip64.so"};
  std::vector<std::string> rocm_smi = {"librocm_smi64.so.7", "librocm_smi64.so.6",
                                       "librocm_smi64.so.5", "librocm_smi64.so.1",
                                       "librocm_smi64.so"};
  std::vector<std::string> amd_smi = {"libamd_smi.so.26", "libamd_smi.so.25", "libamd_smi.so.24",
                                      "libamd_smi.so", "/opt/rocm/lib/libamd_smi.so"};

  // The defaults, with the values of SPILLWAY_SYS_ROOT, SPILLWAY_PROC_ROOT,
  // SPILLWAY_NVML_LIBRARY, SPILLWAY_CUDA_LIBRARY, SPILLWAY_HIP_LIBRARY,
  // SPILLWAY_ROCM_SMI_LIBRARY and SPILLWAY_AMD_SMI_LIBRARY if set. An empty
  // library name means no library.
  static Machine FromEnvironment();
};

}  // namespace spillway
