// SPDX-License-Identifier: Apache-2.0
#include "replay/trace/json_fields.h"

#include <fmt/format.h>

namespace spillway {
namespace {

Error Expected(const char* field, std::string_view what) {
  return Error{Code::kInvalidArgument, fmt::format("'{}': expected {}", field, what)};
}

constexpr std::string_view kRanges = "a list of [first id, count], whole numbers from 0 on";

}  // namespace

Result<std::uint64_t> NumberIn(const Json& object, const char* field, std::uint64_t most) {
  const auto found = object.find(field);
  if (found == object.end() || !found->is_number_unsigned() || found->get<std::uint64_t>() > most) {
    return Expected(field, fmt::format("a whole number from 0 to {}", most));
  }
  return found->get<std::uint64_t>();
}

Result<std::string> TextIn(const Json& object, const char* field) {
  const auto found = object.find(field);
  if (found == object.end() || !found->is_string()) return Expected(field, "a text");
  return found->get<std::string>();
}

Result<const Json*> ObjectIn(const Json& object, const char* field) {
  const auto found = object.find(field);
  if (found == object.end() || !found->is_object()) return Expected(field, "an object");
  return &*found;
}

Status NumbersIn(const Json& object, const char* field, std::vector<std::uint64_t>* out) {
  out->clear();
  const auto found = object.find(field);
  if (found == object.end() || !found->is_array()) {
    return Expected(field, "a list of whole numbers from 0 on");
  }
  for (const Json& one : *found) {
    if (!one.is_number_unsigned()) return Expected(field, "a list of whole numbers from 0 on");
    out->push_back(one.get<std::uint64_t>());
  }
  return {};
}

Status RangesIn(const Json& object, const char* field, std::size_t most,
                std::vector<std::uint64_t>* out) {
  out->clear();
  const auto found = object.find(field);
  if (found == object.end() || !found->is_array()) return Expected(field, kRanges);
  for (const Json& range : *found) {
    if (!range.is_array() || range.size() != 2 || !range[0].is_number_unsigned() ||
        !range[1].is_number_unsigned()) {
      return Expected(field, kRanges);
    }
    const auto first = range[0].get<std::uint64_t>();
    const auto count = range[1].get<std::uint64_t>();
    if (count > most - out->size()) {
      return Expected(field, fmt::format("at most {} ids in all", most));
    }
    for (std::uint64_t i = 0; i < count; ++i) out->push_back(first + i);
  }
  return {};
}

}  // namespace spillway
