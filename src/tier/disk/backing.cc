// SPDX-License-Identifier: Apache-2.0
#include "tier/disk/backing.h"

#include <algorithm>

namespace spillway {

Backing::Backing(Bytes range, Bytes chunk_bytes)
    : range_(range),
      chunk_bytes_(chunk_bytes),
      is_clean_(static_cast<std::size_t>((range + chunk_bytes - 1) / chunk_bytes)) {}

std::vector<Extent> Backing::Lacking(const Extent& extent) const {
  std::vector<Extent> runs;
  const Bytes end = (extent.end() + chunk_bytes_ - 1) / chunk_bytes_;
  for (Bytes chunk = extent.at / chunk_bytes_; chunk < end; ++chunk) {
    if (is_clean_[chunk]) continue;
    const Bytes at = chunk * chunk_bytes_;
    const Bytes bytes = std::min(chunk_bytes_, range_ - at);
    if (!runs.empty() && runs.back().end() == at) {
      runs.back().bytes += bytes;
    } else {
      runs.push_back({at, bytes});
    }
  }
  return runs;
}

Bytes Backing::LackingBytes(const Extent& extent) const {
  Bytes sum = 0;
  for (const Extent& run : Lacking(extent)) sum += run.bytes;
  return sum;
}

std::vector<Extent> Backing::Idle(const PageAllocator& allocator) const {
  std::vector<Extent> runs;
  for (const auto& [begin, end] : allocator.spans()) {
    const Bytes first = (begin + chunk_bytes_ - 1) / chunk_bytes_;
    for (Bytes chunk = first; chunk < is_clean_.size(); ++chunk) {
      const Bytes at = chunk * chunk_bytes_;
      const Bytes chunk_end = std::min(at + chunk_bytes_, range_);
      if (chunk_end > end) break;
      if (!is_clean_[chunk]) continue;
      if (!runs.empty() && runs.back().end() == at) {
        runs.back().bytes += chunk_end - at;
      } else {
        runs.push_back({at, chunk_end - at});
      }
    }
  }
  return runs;
}

void Backing::Set(const Extent& chunks, bool clean) {
  const Bytes end = (chunks.end() + chunk_bytes_ - 1) / chunk_bytes_;
  for (Bytes chunk = chunks.at / chunk_bytes_; chunk < end; ++chunk) {
    if (is_clean_[chunk] == clean) continue;
    is_clean_[chunk] = clean;
    const Bytes bytes = std::min(chunk_bytes_, range_ - chunk * chunk_bytes_);
    clean_ = clean ? clean_ + bytes : clean_ - bytes;
  }
}

}  // namespace spillway
