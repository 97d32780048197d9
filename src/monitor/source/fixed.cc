// SPDX-License-Identifier: Apache-2.0
// The kind "fixed": a pressure that never changes, for experiments.
#include <string>

#include <fmt/format.h>

#include "base/printable.h"
#include "monitor/source/given.h"
#include "monitor/source/kind.h"

namespace spillway {
namespace {

class FixedSource final : public PressureSource {
 public:
  FixedSource(std::string_view text, double share)
      : name_(fmt::format("fixed:{}", text)), reading_(GivenReading(share)) {}

  Result<Reading> Read() override { return reading_; }
  std::string_view name() const override { return name_; }

 private:
  const std::string name_;
  const Reading reading_;
};

class FixedSources final : public SourceKind {
 public:
  std::string_view name() const override { return "fixed"; }
  std::string_view what() const override { return "a pressure that never changes"; }

  Sighting Look(const Machine&) const override {
    return {.why_not = "needs a share: fixed:0.5", .named_by_user = true};
  }

  Result<std::shared_ptr<PressureSource>> Open(const Machine&,
                                               std::string_view device) const override {
    const std::optional<double> share = ParseShare(device);
    if (share) return std::shared_ptr<PressureSource>(new FixedSource(device, *share));
    return Error{
        Code::kInvalidArgument,
        fmt::format("fixed: '{}' is not a share from 0 to 1, as in fixed:0.5", Printable(device))};
  }
};

}  // namespace

const SourceKind& FixedKind() {
  static const FixedSources kKind;
  return kKind;
}

}  // namespace spillway
