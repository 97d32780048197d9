// SPDX-License-Identifier: Apache-2.0
// Pressure of a part of a device, as if the part were all of it: `total` is the size of
// the part, and only memory taken since this source was opened counts as used. For a
// cache that may use that much of a GPU and makes way for others that take memory
// meanwhile.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "spillway/pressure.h"
#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

class PartSource final : public PressureSource {
 public:
  // `spec` is "part:4GiB", of the device `whole`. InvalidArgument: that is no size, or
  // more than there is.
  static Result<std::shared_ptr<PressureSource>> Open(std::string_view spec,
                                                      std::shared_ptr<PressureSource> whole);
  // Whether the setting `pressure_source` names a part.
  static bool IsSpec(std::string_view spec);

  Result<Reading> Read() override;
  int wake_fd() const override { return whole_->wake_fd(); }
  // "part:4GiB of cuda:0"
  std::string_view name() const override { return name_; }

 private:
  PartSource(std::string_view spec, std::shared_ptr<PressureSource> whole, Bytes bytes,
             Bytes taken_before);

  const std::shared_ptr<PressureSource> whole_;
  const Bytes bytes_;
  const Bytes taken_before_;
  const std::string name_;
};

}  // namespace spillway
