// Where bytes come from and go to: lists of fragments, so that an engine's
// scattered blocks travel without an extra copy on its side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "spillway/units.h"

namespace spillway {

enum class Place : std::uint8_t { kHost, kDevice };

struct Fragment {
  const void* data = nullptr;
  Bytes bytes = 0;
  Place place = Place::kHost;
};

struct MutableFragment {
  void* data = nullptr;
  Bytes bytes = 0;
  Place place = Place::kHost;
};

// From when on bytes on a device may be read or written: after what has been
// put on a stream so far, or after an event (CUstream, CUevent or their HIP
// kin). Host memory needs none. The default stream is a stream, too: kNone says
// that all is done already.
struct DeviceOrder {
  enum class After : std::uint8_t { kNone, kStream, kEvent };

  After after = After::kNone;
  void* handle = nullptr;

  static DeviceOrder Stream(void* stream) { return {After::kStream, stream}; }
  static DeviceOrder Event(void* event) { return {After::kEvent, event}; }
};

// Fragments in a row, as a Source or Sink shows them; dies with it.
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

// The bytes of a value, in order. Borrowed: they must stay as they are until
// the operation has completed.
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
  // When its device fragments have been written.
  const DeviceOrder& order() const { return order_; }

 private:
  Fragment one_;  // Most values come in one piece: that needs no memory.
  bool has_one_ = false;
  std::vector<Fragment> many_;
  DeviceOrder order_;
};

// Where a value's bytes are to be put, in order. A sink may be larger than the
// value; it is never written past the value's end.
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
  // When nobody uses its device fragments any more.
  const DeviceOrder& order() const { return order_; }

 private:
  std::vector<MutableFragment> fragments_;
  DeviceOrder order_;
};

}  // namespace spillway
