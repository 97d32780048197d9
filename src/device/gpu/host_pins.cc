// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/host_pins.h"

#include <new>

#include "base/log.h"
#include "base/mutex.h"

namespace spillway {

HostPins::HostPins(std::shared_ptr<const GpuDriver> driver, int device, GpuContext context)
    : driver_(std::move(driver)), device_(device), context_(context) {}

HostPins::~HostPins() {
  for (const auto& [base, bytes] : chunks_) Unregister(base);
}

void HostPins::Unregister(const std::byte* base) {
  if (forsaken_.load(std::memory_order_acquire)) return;
  const GpuScope scope(*driver_, device_, context_);
  if (scope.code() != 0) return;
  Insist([&] { return driver_->host_unregister(const_cast<std::byte*>(base)); });
}

void HostPins::Added(std::byte* base, Bytes bytes) {
  const GpuScope scope(*driver_, device_, context_);
  int code = scope.code();
  if (code == 0) code = driver_->host_register(base, bytes, kGpuPortable);
  if (code != 0) {
    if (refused_.fetch_add(1) == 0) {
      LogWarning("host memory could not be registered with the driver ({}): copies of it are slow",
                 driver_->Failed("register", code).message);
    }
    return;
  }
  const WriterLock lock(mutex_);
  try {
    chunks_.emplace(base, bytes);
    registered_ += bytes;
  } catch (const std::bad_alloc&) {
    driver_->host_unregister(base);
  }
}

void HostPins::Removed(std::byte* base, Bytes) {
  {
    const WriterLock lock(mutex_);
    const auto found = chunks_.find(base);
    if (found == chunks_.end()) return;
    registered_ -= found->second;
    chunks_.erase(found);
  }
  Unregister(base);
}

Bytes HostPins::Reach(const void* at) const {
  const auto* const from = static_cast<const std::byte*>(at);
  const ReaderLock lock(mutex_);
  auto chunk = chunks_.upper_bound(from);
  if (chunk == chunks_.begin()) return 0;
  --chunk;
  const std::byte* const end = chunk->first + chunk->second;
  return from < end ? static_cast<Bytes>(end - from) : 0;
}

}  // namespace spillway
