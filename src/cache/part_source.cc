// SPDX-License-Identifier: Apache-2.0
#include "cache/part_source.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/parse.h"

namespace spillway {

namespace {
constexpr std::string_view kPrefix = "part:";

Bytes TakenOf(const Reading& reading) {
  return reading.total - std::min(reading.total, reading.free);
}
}  // namespace

bool PartSource::IsSpec(std::string_view spec) { return spec.starts_with(kPrefix); }

Result<std::shared_ptr<PressureSource>> PartSource::Open(std::string_view spec,
                                                         std::shared_ptr<PressureSource> whole) {
  const Result<Bytes> bytes = ParseBytes(spec.substr(kPrefix.size()));
  if (!bytes) {
    return Error{Code::kInvalidArgument,
                 fmt::format("part: {}, as in part:4GiB", bytes.error().message)};
  }
  const Result<Reading> now = whole->Read();
  if (!now) return now.error();
  if (*bytes == 0 || *bytes > now->total) {
    return Error{Code::kInvalidArgument,
                 fmt::format("part: {} are no part of {}, which has {}", FormatBytes(*bytes),
                             whole->name(), FormatBytes(now->total))};
  }
  return std::shared_ptr<PressureSource>(
      new PartSource(spec, std::move(whole), *bytes, TakenOf(*now)));
}

PartSource::PartSource(std::string_view spec, std::shared_ptr<PressureSource> whole, Bytes bytes,
                       Bytes taken_before)
    : whole_(std::move(whole)),
      bytes_(bytes),
      taken_before_(taken_before),
      name_(fmt::format("{} of {}", spec, whole_->name())) {}

Result<Reading> PartSource::Read() {
  const Result<Reading> whole = whole_->Read();
  if (!whole) return whole.error();
  const Bytes taken = TakenOf(*whole);
  const Bytes since = taken - std::min(taken, taken_before_);
  return Reading{bytes_, bytes_ - std::min(bytes_, since), {}, whole->scope, whole->held};
}

}  // namespace spillway
