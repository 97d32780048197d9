// SPDX-License-Identifier: Apache-2.0
#include "fakes/gpu/faults.h"

namespace fakes {

int Faults::Enter(const std::string& function) {
  const std::uint64_t call = ++calls_;
  const std::uint64_t call_of = ++calls_of_[function];
  int code = lost_;
  if (code == 0) code = fault_.Answer(call);
  if (const auto fault = fault_of_.find(function); code == 0 && fault != fault_of_.end()) {
    code = fault->second.Answer(call_of);
  }
  if (code != 0) failed_ = function;
  return code;
}

void Faults::FailCall(std::uint64_t n, int code, bool for_good) {
  fault_ = {n == 0 ? 0 : calls_ + n, code, for_good};
}

void Faults::FailFunction(const std::string& function, std::uint64_t n, int code, bool for_good) {
  fault_of_[function] = {n == 0 ? 0 : calls(function) + n, code, for_good};
}

std::uint64_t Faults::calls(const std::string& function) const {
  const auto found = calls_of_.find(function);
  return found == calls_of_.end() ? 0 : found->second;
}

bool EndsTheWork(int code) {
  switch (code) {
    case 0:
    case 1:    // A wrong argument.
    case 2:    // No memory.
    case 205:  // Could not map.
    case 304:  // The system refused something.
    case 600:  // Not ready.
    case 712:  // Registered already.
    case 713:  // Not registered.
    case 800:  // Not permitted.
    case 801:  // Not supported.
      return false;
    default:
      return true;
  }
}

const char* Words(int code) {
  switch (code) {
    case 1:
      return "invalid argument";
    case 2:
      return "out of memory";
    case 100:
      return "no device";
    case 700:
      return "an illegal memory access was encountered";
    case 999:
      return "unknown error";
    default:
      return nullptr;
  }
}

}  // namespace fakes
