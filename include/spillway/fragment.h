// SPDX-License-Identifier: Apache-2.0
// Where the bytes of a value are read from and written to: lists of fragments. An engine whose
// blocks are scattered in memory passes them as they are and need not copy them together first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "spillway/units.h"

namespace spillway {

// The address space a pointer belongs to: the host's or a GPU's.
enum class Place : std::uint8_t { kHost, kDevice };

// A piece of memory to read from. The cache does not own it.
struct Fragment {
  const void* data = nullptr;
  Bytes bytes = 0;
  Place place = Place::kHost;
};

// A piece of memory to write to. The cache does not own it.
struct MutableFragment {
  void* data = nullptr;
  Bytes bytes = 0;
  Place place = Place::kHost;
};

// When device memory may be read or written: after all work submitted to a stream so far, or after
// an event (CUstream, CUevent or the HIP types). kNone: all work on that memory has completed
// already. The default stream (handle null) needs kStream like any other stream. Host memory needs
// no order.
struct DeviceOrder {
  enum class After : std::uint8_t { kNone, kStream, kEvent };

  After after = After::kNone;
  void* handle = nullptr;

  static DeviceOrder Stream(void* stream) { return {After::kStream, stream}; }
  static DeviceOrder Event(void* event) { return {After::kEvent, event}; }
};

// A view of the fragments of a Source or Sink, in order. Valid as long as that object.
template <typename Each>
class FragmentList {
 public:
  FragmentList(const Each* first, std::size_t count) : first_(first), count_(count) {}

  const Each* begin() const { return first_; }
  const Each* end() const { return first_ + count_; }
  std::size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  const Each& front() const { return *first_; }
  const Each& operator[](std::size_t at) const { return first_[at]; }

 private:
  const Each* first_;
  std::size_t count_;
};

// The bytes of a value, as fragments in order. The memory is borrowed: it must stay valid and
// unchanged until the operation has completed.
class Source {
 public:
  Source() = default;
  Source(const void* data, Bytes bytes) : one_{data, bytes, Place::kHost}, has_one_(true) {}
  explicit Source(std::string_view text) : Source(text.data(), text.size()) {}
  explicit Source(std::vector<Fragment> fragments, DeviceOrder order = {})
      : many_(std::move(fragments)), order_(order) {}

  FragmentList<Fragment> fragments() const {
    if (has_one_) return {&one_, 1};
    return {many_.data(), many_.size()};
  }
  Bytes bytes() const {
    Bytes sum = 0;
    for (const Fragment& f : fragments()) sum += f.bytes;
    return sum;
  }
  // When the device fragments have been written and may be read.
  const DeviceOrder& order() const { return order_; }

 private:
  Fragment one_;  // Most values are one fragment. It is stored here, without an allocation.
  bool has_one_ = false;
  std::vector<Fragment> many_;
  DeviceOrder order_;
};

// Where to write a value's bytes, as fragments in order. A sink may be larger than the value; bytes
// past the value's end are not written.
class Sink {
 public:
  Sink() = default;
  Sink(void* data, Bytes bytes) : fragments_{{data, bytes, Place::kHost}} {}
  explicit Sink(std::vector<MutableFragment> fragments, DeviceOrder order = {})
      : fragments_(std::move(fragments)), order_(order) {}

  FragmentList<MutableFragment> fragments() const { return {fragments_.data(), fragments_.size()}; }
  Bytes bytes() const {
    Bytes sum = 0;
    for (const MutableFragment& f : fragments_) sum += f.bytes;
    return sum;
  }
  // When earlier uses of the device fragments have ended and they may be overwritten.
  const DeviceOrder& order() const { return order_; }

 private:
  std::vector<MutableFragment> fragments_;
  DeviceOrder order_;
};

}  // namespace spillway
