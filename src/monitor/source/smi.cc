// SPDX-License-Identifier: Apache-2.0
#include "monitor/source/smi.h"

#include <map>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "base/driver_error.h"

namespace spillway {

std::string SmiPci(std::uint64_t domain, std::uint64_t low_bits) {
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", domain, low_bits >> 8 & 0xff,
                     low_bits >> 3 & 0x1f, low_bits & 0x7);
}

Error SmiError(SmiWords* words_of, std::string_view call, int code) {
  const char* words = nullptr;
  if (words_of != nullptr && words_of(code, &words) != 0) words = nullptr;
  return DriverError(call, code, words);
}

Result<Reading> SmiReading(Bytes total, Bytes used, Scope scope) {
  if (used > total) {
    return Error{Code::kUnavailable,
                 fmt::format("more used than there is (total {}, used {})", total, used)};
  }
  return Reading{.total = total, .free = total - used, .scope = scope};
}

void MarkPartitions(std::vector<Found>* found) {
  const auto package = [](const Found& one) { return one.device.substr(0, one.device.rfind('.')); };
  std::map<std::string, int> parts;
  for (const Found& one : *found) ++parts[package(one)];
  std::set<std::string> seen;
  std::erase_if(*found, [&](Found& one) {
    if (parts[package(one)] > 1) one.scope = Scope::kPartition;
    return !seen.insert(one.device).second;
  });
}

}  // namespace spillway
