// A Device is memory that others use too: address space of our own, physical
// chunks taken and returned one by one, copies in and out, and a reading of
// how much is free. It knows nothing of entries.
//
// Chunks are mapped and unmapped only from the engine's strand; copies and
// readings may come from any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

#include "base/hash128.h"
#include "spillway/fragment.h"
#include "spillway/pressure.h"
#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

class Device {
 public:
  virtual ~Device() = default;

  // Stable name: "cpu" for a private virtual card, "cpu:NAME" for a shared one.
  virtual std::string_view name() const = 0;
  // All memory of the card, ours and others'.
  virtual Bytes total() const = 0;
  // Whether other processes use it too: only then is a reserve of any use.
  virtual bool shared() const = 0;
  // Whether its memory can be read and written like any other of this process.
  virtual bool host_readable() const { return true; }
  // Whether an address in a range of it means something to its driver, so that it
  // can be lent.
  virtual bool has_addresses() const { return true; }
  // By what others know it, too: the UUID of a GPU, the name of a card; empty:
  // it is nobody else's.
  virtual std::string_view id() const { return {}; }
  // Whether it is gone for good, with all that was on it: every call fails from
  // now on. Any thread.
  virtual bool is_lost() const { return false; }
  // And may, for all one knows, still write to host memory a copy was to go to.
  virtual bool in_doubt() const { return false; }
  // How much physical memory one MapChunk takes. A power of two.
  virtual Bytes chunk_bytes() const = 0;
  // What is free now. Cheap (microseconds), but a driver may hang: never
  // called by the engine while others wait for it.
  virtual Result<Reading> ReadMemory() = 0;

  // Address space without memory. `bytes` is a multiple of chunk_bytes().
  virtual Result<std::byte*> ReserveRange(Bytes bytes) = 0;
  virtual void ReleaseRange(std::byte* base, Bytes bytes) = 0;

  // Takes one chunk of physical memory from the card and puts it at `at`
  // (chunk-aligned, inside a reserved range, nothing mapped there). NoMemory
  // when the card has none left; then nothing has changed.
  virtual Status MapChunk(std::byte* at) = 0;
  // Returns the chunk to the card: another process can have it when this
  // returns. Never fails, never waits for copies or kernels; but a GPU's slabs wait
  // for kernels, and zeroing waits for itself.
  virtual void UnmapChunk(std::byte* at) = 0;

  // Bytes in and out of mapped memory, done when they return. An error: some may
  // have arrived, some not.
  virtual Status CopyIn(std::byte* to, const Source& source) = 0;
  virtual Status CopyOut(const std::byte* from, Bytes bytes, const Sink& sink) = 0;
  // The same into one piece of host memory; `arrived` is told how many of the
  // first bytes are there, again and again, on the calling thread; false: it is
  // called off.
  virtual Status CopyToHost(const std::byte* from, Bytes bytes, std::byte* to,
                            const std::function<bool(Bytes)>& arrived);
  // The other way round. `hashes` (may be null): checksums of the whole pieces of
  // kHashPieceBytes, made on the device of what has arrived there; empty: it
  // could not.
  virtual Status CopyFromHost(std::byte* to, const std::byte* from, Bytes bytes,
                              const std::function<bool(Bytes)>& arrived,
                              std::vector<Hash128>* hashes);
  // Whether it can, as a rule.
  virtual bool makes_hashes() const { return false; }
};

}  // namespace spillway
