// Host memory that the driver knows: copies to and from it are direct and do not
// hold up the caller. Chunks of the host pool are registered as they come and
// before they go.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <shared_mutex>

#include "device/gpu/gpu_driver.h"
#include "device/host/chunk_listener.h"

namespace spillway {

class HostPins final : public ChunkListener {
 public:
  HostPins(std::shared_ptr<const GpuDriver> driver, int device, GpuContext context);
  // What is still registered is let go.
  ~HostPins() override;

  // A chunk the driver refuses is used as it is, and copied by way of staging.
  void Added(std::byte* base, Bytes bytes) override;
  void Removed(std::byte* base, Bytes bytes) override;

  // Something may still be under way to or from this memory, and nobody will hear
  // of its end: the driver keeps what it knows.
  void Forsake() { forsaken_.store(true, std::memory_order_release); }

  // How many bytes from `at` on belong to the chunk it is in; 0: it is in none. A
  // copy must not reach from one into the next. Any thread.
  Bytes Reach(const void* at) const;
  Bytes registered() const { return registered_.load(std::memory_order_relaxed); }
  std::size_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  void Unregister(const std::byte* base);

  const std::shared_ptr<const GpuDriver> driver_;
  const int device_;
  const GpuContext context_;
  mutable std::shared_mutex mutex_;
  std::map<const std::byte*, Bytes> chunks_;  // Guarded by mutex_.
  std::atomic<bool> forsaken_{false};
  std::atomic<Bytes> registered_{0};
  std::atomic<std::size_t> refused_{0};
};

}  // namespace spillway
