// SPDX-License-Identifier: Apache-2.0
// The copies of a GpuDevice: the direction of each piece, and the real
// addresses of slabs.
#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "device/gpu/gpu_device.h"

namespace spillway {

// Translates an address that names slab memory to the slab's own address. Our ranges
// contain nothing else: they are addresses of this process reserved as names.
GpuDevice::Stretch GpuDevice::RealAt(GpuAddress at, Bytes bytes) const {
  for (const Range& range : ranges_) {
    const GpuAddress base = AddressOf(range.base);
    if (at < base || at - base >= range.chunks.size() * chunk_bytes_) continue;
    const Bytes offset = (at - base) % chunk_bytes_;
    const GpuHandle slab = range.chunks[(at - base) / chunk_bytes_];
    assert(slab != 0 && slab != ~GpuHandle{0});
    return {slab + offset, std::min(bytes, chunk_bytes_ - offset)};
  }
  return {at, bytes};
}

std::vector<GpuCopies::Piece> GpuDevice::Real(std::vector<GpuCopies::Piece> pieces) const {
  if (!slabs_) return pieces;
  const ReaderLock lock(ranges_mutex_);
  std::vector<GpuCopies::Piece> real;
  real.reserve(pieces.size());
  for (GpuCopies::Piece piece : pieces) {
    while (piece.bytes > 0) {
      const Stretch to = RealAt(piece.to, piece.bytes);
      const Stretch from = RealAt(piece.from, piece.bytes);
      const Bytes step = std::min(to.bytes, from.bytes);
      real.push_back({to.at, from.at, step});
      piece.to += step;
      piece.from += step;
      piece.bytes -= step;
    }
  }
  return real;
}

Status GpuDevice::Zero(std::byte* at, Bytes bytes) {
  for (const GpuCopies::Piece& piece : Real({{AddressOf(at), 0, bytes}})) {
    if (Status zeroed = copies_->Fill(piece.to, piece.bytes); !zeroed) return zeroed;
  }
  return {};
}

Status GpuDevice::CopyIn(std::byte* to, const Source& source) {
  const bool here = Owns(to);
  std::array<std::vector<GpuCopies::Piece>, GpuCopies::kWays> pieces;
  for (const Fragment& fragment : source.fragments()) {
    if (fragment.bytes == 0) continue;
    const bool from_device = fragment.place == Place::kDevice;
    if (!here && !from_device) {
      std::memcpy(to, fragment.data, fragment.bytes);
    } else {
      const auto way = !here         ? GpuCopies::Way::kToHost
                       : from_device ? GpuCopies::Way::kOnDevice
                                     : GpuCopies::Way::kToDevice;
      pieces[static_cast<std::size_t>(way)].push_back(
          {AddressOf(to), AddressOf(fragment.data), fragment.bytes});
    }
    to += fragment.bytes;
  }
  return RunAll(std::move(pieces), source.order());
}

Status GpuDevice::CopyOut(const std::byte* from, Bytes bytes, const Sink& sink) {
  const bool here = Owns(from);
  std::array<std::vector<GpuCopies::Piece>, GpuCopies::kWays> pieces;
  for (const MutableFragment& fragment : sink.fragments()) {
    const Bytes take = std::min(fragment.bytes, bytes);
    if (take == 0) continue;
    const bool to_device = fragment.place == Place::kDevice;
    if (!here && !to_device) {
      std::memcpy(fragment.data, from, take);
    } else {
      const auto way = !here       ? GpuCopies::Way::kToDevice
                       : to_device ? GpuCopies::Way::kOnDevice
                                   : GpuCopies::Way::kToHost;
      pieces[static_cast<std::size_t>(way)].push_back(
          {AddressOf(fragment.data), AddressOf(from), take});
    }
    from += take;
    bytes -= take;
  }
  assert(bytes == 0 && "the sink is smaller than the value");
  return RunAll(std::move(pieces), sink.order());
}

Status GpuDevice::RunAll(std::array<std::vector<GpuCopies::Piece>, GpuCopies::kWays> pieces,
                         const DeviceOrder& order) {
  for (std::size_t way = 0; way < pieces.size(); ++way) {
    if (pieces[way].empty()) continue;
    Status ok = copies_->Run(static_cast<GpuCopies::Way>(way), Real(std::move(pieces[way])), order);
    if (!ok) return ok;
  }
  return {};
}

Status GpuDevice::CopyToHost(const std::byte* from, Bytes bytes, std::byte* to,
                             const std::function<bool(Bytes)>& arrived) {
  return copies_->Run(GpuCopies::Way::kToHost, Real({{AddressOf(to), AddressOf(from), bytes}}), {},
                      arrived);
}

Status GpuDevice::CopyFromHost(std::byte* to, const std::byte* from, Bytes bytes,
                               const std::function<bool(Bytes)>& arrived,
                               std::vector<Hash128>* hashes) {
  if (hashes != nullptr) hashes->clear();
  return copies_->Run(GpuCopies::Way::kToDevice, Real({{AddressOf(to), AddressOf(from), bytes}}),
                      {}, arrived, makes_hashes() ? hashes : nullptr);
}

}  // namespace spillway
