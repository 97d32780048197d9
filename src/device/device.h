// SPDX-License-Identifier: Apache-2.0
// A Device is memory that other processes may use, too: address space of our
// own, physical chunks taken and returned one by one, copies in and out, and a
// reading of how much is free. It knows nothing of entries.
//
// Chunks are mapped and unmapped only on the engine's strand; copies and
// readings may come from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "base/hash128.h"
#include "spillway/fragment.h"
#include "spillway/pressure.h"
#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

// A process that holds memory of a device.
struct DeviceHolder {
  std::uint64_t pid = 0;  // As that process numbers itself: containers may do so differently.
  Bytes bytes = 0;
};

class Device {
 public:
  virtual ~Device() = default;

  // Stable name: "cpu" for a private virtual card, "cpu:NAME" for a shared one.
  virtual std::string_view name() const = 0;
  // All memory of the card, used by us or by others.
  virtual Bytes total() const = 0;
  // Whether other processes use the card, too: only then is a reserve useful.
  virtual bool shared() const = 0;
  // Whether this process can read and write its memory like any other.
  virtual bool host_readable() const { return true; }
  // Whether an address in one of its ranges is valid for the driver, so that it
  // can be lent.
  virtual bool has_addresses() const { return true; }
  // The identity that other programs use, too: the UUID of a GPU, the name of a
  // card. Empty: only this process uses it.
  virtual std::string_view id() const { return {}; }
  // Whether the device is gone for good, with everything on it: all calls fail
  // from now on. Any thread.
  virtual bool is_lost() const { return false; }
  // Whether a lost device may, as far as is known, still write to host memory
  // that a copy was to go to. Such memory must not be reused.
  virtual bool in_doubt() const { return false; }
  // The physical memory that one MapChunk takes. A power of two.
  virtual Bytes chunk_bytes() const = 0;
  // The memory that is free now. Cheap (microseconds), but a driver may hang:
  // the engine never calls this while other threads wait for it.
  virtual Result<Reading> ReadMemory() = 0;

  // The processes that hold memory, where the device can tell. Any thread.
  virtual std::vector<DeviceHolder> Holders() { return {}; }

  // Address space without memory. `bytes` is a multiple of chunk_bytes().
  virtual Result<std::byte*> ReserveRange(Bytes bytes) = 0;
  virtual void ReleaseRange(std::byte* base, Bytes bytes) = 0;

  // Takes one chunk of physical memory from the card and maps it at `at`
  // (chunk-aligned, inside a reserved range, nothing mapped there). NoMemory:
  // the card has none left, and nothing has changed.
  virtual Status MapChunk(std::byte* at) = 0;
  // Returns the chunk to the card: when this returns, another process can have
  // it. Never fails, and waits for no copies or kernels, with two exceptions:
  // slabs of a GPU wait for kernels, and zeroing waits for itself.
  virtual void UnmapChunk(std::byte* at) = 0;
  // Returns the memory of unmapped chunks that the device keeps for reuse to
  // the system. Call it on the thread that maps and unmaps.
  virtual void ReleaseWarm() {}

  // Copies into and out of mapped memory, complete on return. After an error
  // some bytes may have been copied, others not.
  virtual Status CopyIn(std::byte* to, const Source& source) = 0;
  virtual Status CopyOut(const std::byte* from, Bytes bytes, const Sink& sink) = 0;
  // Copies into one piece of host memory. Calls `arrived` on the calling thread
  // as the copy proceeds, with the number of bytes at the front that have
  // arrived. If `arrived` returns false the copy is cancelled.
  virtual Status CopyToHost(const std::byte* from, Bytes bytes, std::byte* to,
                            const std::function<bool(Bytes)>& arrived);
  // The reverse. `hashes` (may be null) receives checksums of the whole pieces
  // of kHashPieceBytes, computed on the device from the bytes that arrived
  // there; empty: the device could not compute them.
  virtual Status CopyFromHost(std::byte* to, const std::byte* from, Bytes bytes,
                              const std::function<bool(Bytes)>& arrived,
                              std::vector<Hash128>* hashes);
  // Whether CopyFromHost usually computes hashes.
  virtual bool makes_hashes() const { return false; }
};

}  // namespace spillway
