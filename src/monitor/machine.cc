// SPDX-License-Identifier: Apache-2.0
#include "monitor/machine.h"

#include <cstdlib>

namespace spillway {

namespace {

void TakeFrom(const char* variable, std::string* into) {
  if (const char* value = std::getenv(variable)) *into = value;
}

void TakeFrom(const char* variable, std::vector<std::string>* into) {
  const char* value = std::getenv(variable);
  if (value == nullptr) return;
  into->clear();
  if (*value != 0) into->emplace_back(value);
}

}  // namespace

Machine Machine::FromEnvironment() {
  Machine machine;
  TakeFrom("SPILLWAY_SYS_ROOT", &machine.sys);
  TakeFrom("SPILLWAY_PROC_ROOT", &machine.proc);
  TakeFrom("SPILLWAY_NVML_LIBRARY", &machine.nvml);
  TakeFrom("SPILLWAY_CUDA_LIBRARY", &machine.cuda);
  TakeFrom("SPILLWAY_HIP_LIBRARY", &machine.hip);
  TakeFrom("SPILLWAY_ROCM_SMI_LIBRARY", &machine.rocm_smi);
  TakeFrom("SPILLWAY_AMD_SMI_LIBRARY", &machine.amd_smi);
  return machine;
}

}  // namespace spillway
