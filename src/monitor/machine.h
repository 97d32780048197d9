// Where the monitor finds the machine: file trees and libraries. Tests put
// others in their place.
#pragma once

#include <string>
#include <vector>

namespace spillway {

struct Machine {
  std::string sys = "/sys";
  std::string proc = "/proc";
  // Names to try, in order.
  std::vector<std::string> nvml = {"libnvidia-ml.so.1", "libnvidia-ml.so"};
  std::vector<std::string> cuda = {"libcuda.so.1", "libcuda.so"};
  std::vector<std::string> hip = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
                                  "libamdhip64.so", "/opt/rocm/lib/libamdhip64.so"};
  std::vector<std::string> rocm_smi = {"librocm_smi64.so.7", "librocm_smi64.so.6",
                                       "librocm_smi64.so.5", "librocm_smi64.so.1",
                                       "librocm_smi64.so"};
  std::vector<std::string> amd_smi = {"libamd_smi.so.26", "libamd_smi.so.25", "libamd_smi.so.24",
                                      "libamd_smi.so", "/opt/rocm/lib/libamd_smi.so"};

  // As it is, but for what SPILLWAY_SYS_ROOT, SPILLWAY_PROC_ROOT,
  // SPILLWAY_NVML_LIBRARY, SPILLWAY_CUDA_LIBRARY, SPILLWAY_HIP_LIBRARY,
  // SPILLWAY_ROCM_SMI_LIBRARY and SPILLWAY_AMD_SMI_LIBRARY name; an empty library name means none.
  static Machine FromEnvironment();
};

}  // namespace spillway
