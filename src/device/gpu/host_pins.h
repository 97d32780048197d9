// SPDX-License-Identifier: Apache-2.0
// Host memory that is registered with the driver: copies to and from it are
// direct and do not block the caller. Chunks of the host pool are registered
// when they are added and unregistered before they are removed.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>

#include "base/mutex.h"
#include "device/gpu/gpu_driver.h"
#include "device/host/chunk_listener.h"

namespace spillway {

// Added and Removed may be called from any thread.
class HostPins final : public ChunkListener {
 public:
  HostPins(std::shared_ptr<const GpuDriver> driver, int device, GpuContext context);
  // Unregisters everything that is still registered.
  ~HostPins() override;

  // A chunk that the driver refuses is used all the same, and copied through
  // bounce buffers.
  void Added(std::byte* base, Bytes bytes) override;
  void Removed(std::byte* base, Bytes bytes) override;

  // Copies to or from this memory may never be seen to end: from now on nothing
  // is unregistered.
  void Forsake() { forsaken_.store(true, std::memory_order_release); }

  // Returns how many bytes from `at` on belong to the same registered chunk; 0: it
  // is in none. A copy must not cross from one chunk into the next. Any thread.
  Bytes Reach(const void* at) const;
  Bytes registered() const { return registered_.load(std::memory_order_relaxed); }
  std::size_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  void Unregister(const std::byte* base);

  const std::shared_ptr<const GpuDriver> driver_;
  const int device_;
  const GpuContext context_;
  mutable SharedMutex mutex_;
  std::map<const std::byte*, Bytes> chunks_ SPILLWAY_GUARDED_BY(mutex_);
  std::atomic<bool> forsaken_{false};
  std::atomic<Bytes> registered_{0};
  std::atomic<std::size_t> refused_{0};
};

}  // namespace spillway
