// A part of a device, as if it were all of it: its size, and of what is taken only
// what has been taken since this was opened. For a cache that shall keep to so
// much of a GPU, and yield that to who takes memory meanwhile.
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
  // "part:4GiB" of `whole`. InvalidArgument: that is no size, or more than there is.
  static Result<std::shared_ptr<PressureSource>> Open(std::string_view spec,
                                                      std::shared_ptr<PressureSource> whole);
  // Whether a `pressure_source` is one of these.
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
