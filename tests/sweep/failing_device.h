// SPDX-License-Identifier: Apache-2.0
// A device that refuses chunks when told to.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "device/device.h"

namespace spillway::sweep {

class FailingDevice final : public Device {
 public:
  // `refuse`: whether this MapChunk fails.
  FailingDevice(std::shared_ptr<Device> device, std::function<bool()> refuse)
      : device_(std::move(device)), refuse_(std::move(refuse)) {}

  std::string_view name() const override { return device_->name(); }
  Bytes total() const override { return device_->total(); }
  bool shared() const override { return device_->shared(); }
  Bytes chunk_bytes() const override { return device_->chunk_bytes(); }
  Result<Reading> ReadMemory() override { return device_->ReadMemory(); }
  Result<std::byte*> ReserveRange(Bytes bytes) override { return device_->ReserveRange(bytes); }
  void ReleaseRange(std::byte* base, Bytes bytes) override { device_->ReleaseRange(base, bytes); }
  Status MapChunk(std::byte* at) override {
    if (refuse_()) return Error{Code::kNoMemory, "the machine refused memory"};
    return device_->MapChunk(at);
  }
  void UnmapChunk(std::byte* at) override { device_->UnmapChunk(at); }
  Status CopyIn(std::byte* to, const Source& source) override {
    return device_->CopyIn(to, source);
  }
  Status CopyOut(const std::byte* from, Bytes bytes, const Sink& sink) override {
    return device_->CopyOut(from, bytes, sink);
  }

 private:
  const std::shared_ptr<Device> device_;
  const std::function<bool()> refuse_;
};

}  // namespace spillway::sweep
