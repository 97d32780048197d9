// Where bytes come from and go to: lists of fragments, so that an engine's
// scattered blocks travel without an extra copy on its side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
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

// The bytes of a value, in order. Borrowed: they must stay as they are until
// the operation has completed.
class Source {
 public:
  Source() = default;
  Source(const void* data, Bytes bytes) : fragments_{{data, bytes, Place::kHost}} {}
  explicit Source(std::string_view text) : Source(text.data(), text.size()) {}
  explicit Source(std::vector<Fragment> fragments) : fragments_(std::move(fragments)) {}

  const std::vector<Fragment>& fragments() const { return fragments_; }
  Bytes bytes() const {
    Bytes sum = 0;
    for (const Fragment& f : fragments_) sum += f.bytes;
    return sum;
  }

 private:
  std::vector<Fragment> fragments_;
};

// Where a value's bytes are to be put, in order. A sink may be larger than the
// value; it is never written past the value's end.
class Sink {
 public:
  Sink() = default;
  Sink(void* data, Bytes bytes) : fragments_{{data, bytes, Place::kHost}} {}
  explicit Sink(std::vector<MutableFragment> fragments) : fragments_(std::move(fragments)) {}

  const std::vector<MutableFragment>& fragments() const { return fragments_; }
  Bytes bytes() const {
    Bytes sum = 0;
    for (const MutableFragment& f : fragments_) sum += f.bytes;
    return sum;
  }

 private:
  std::vector<MutableFragment> fragments_;
};

}  // namespace spillway
