// SPDX-License-Identifier: Apache-2.0
#include "tier/disk/blob_transfer.h"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

namespace spillway {

BlobTransfer::BlobTransfer(int file, const Extent& extent, std::span<std::byte> header, Bytes size,
                           bool write, BufferPool* buffers, const std::atomic<bool>* cancelled)
    : file_(file),
      extent_(extent),
      header_(header),
      size_(size),
      write_(write),
      buffers_(buffers),
      cancelled_(cancelled) {
  assert(header.size() + PagesUp(size) == extent.bytes);
}

bool BlobTransfer::Next(Io* io) {
  const std::uint64_t pieces = Seal::PiecesIn(size_);
  if (error_ != 0 || is_cancelled_ || next_ > pieces) return false;
  if (cancelled_ != nullptr && cancelled_->load(std::memory_order_relaxed)) {
    is_cancelled_ = true;
    return false;
  }
  // Operations in flight use our buffers: without memory for the next piece,
  // stop and wait for those.
  try {
    Describe(write_ ? (next_ + 1) % (pieces + 1) : next_, io);
  } catch (const std::bad_alloc&) {
    error_ = ENOMEM;
    return false;
  }
  ++next_;
  return true;
}

void BlobTransfer::Describe(std::uint64_t tag, Io* io) {
  *io = {file_, extent_.at, header_.data(), header_.size(), write_, tag};
  if (tag == 0) return Heading();

  const Bytes at = (io->tag - 1) * Seal::kPieceBytes;
  const Bytes bytes = std::min(Seal::kPieceBytes, size_ - at);
  io->at = extent_.at + header_.size() + at;
  io->bytes = PagesUp(bytes);
  io->data = Direct(at, bytes, io->bytes);
  if (io->data == nullptr) {
    borrowed_.push_back({io->tag, buffers_->Take()});
    io->data = borrowed_.back().buffer.data();
    if (write_) Fill(at, bytes, {io->data, io->bytes});
  }
  if (write_) Leaving(tag - 1, io->data, bytes);
}

void BlobTransfer::Done(const Io& io, std::int64_t result) {
  if (result >= 0) moved_ += static_cast<Bytes>(result);
  if (result < 0) {
    error_ = static_cast<int>(-result);
  } else if (static_cast<Bytes>(result) != io.bytes) {
    if (error_ == 0) error_ = kCutShort;
  } else if (io.tag > 0) {
    const Bytes at = (io.tag - 1) * Seal::kPieceBytes;
    Arrived(io.tag - 1, at, std::min(Seal::kPieceBytes, size_ - at), {io.data, io.bytes});
  }
  const auto borrowed = std::find_if(borrowed_.begin(), borrowed_.end(),
                                     [&](const Borrowed& each) { return each.tag == io.tag; });
  if (borrowed == borrowed_.end()) return;
  buffers_->Give(std::move(borrowed->buffer));
  borrowed_.erase(borrowed);
}

WriteTransfer::WriteTransfer(int file, const Extent& extent, std::span<std::byte> header,
                             Bytes size, const Source& source, const std::vector<Hash128>& given,
                             Encode encode, BufferPool* buffers, const std::atomic<bool>* cancelled)
    : BlobTransfer(file, extent, header, size, true, buffers, cancelled),
      fragments_(source.fragments()),
      encode_(std::move(encode)),
      makes_pieces_(given.empty()),
      pieces_(given.empty() ? std::vector<Hash128>(Seal::PiecesIn(size)) : given) {}

void WriteTransfer::Leaving(std::size_t piece, const std::byte* data, Bytes bytes) {
  if (makes_pieces_) pieces_[piece] = Hash128Of(data, bytes);
}

void WriteTransfer::Seek(Bytes at) {
  while (at >= fragment_at_ + fragments_[fragment_].bytes) {
    fragment_at_ += fragments_[fragment_++].bytes;
  }
}

std::byte* WriteTransfer::Direct(Bytes at, Bytes bytes, Bytes padded) {
  Seek(at);
  const Fragment& fragment = fragments_[fragment_];
  const Bytes inside = at - fragment_at_;
  const auto* data = static_cast<const std::byte*>(fragment.data) + inside;
  if (bytes != padded || fragment.bytes - inside < bytes || !IsPageAligned(data)) return nullptr;
  return const_cast<std::byte*>(data);  // Files only reads from the memory of a write.
}

void WriteTransfer::Fill(Bytes at, Bytes bytes, std::span<std::byte> buffer) {
  std::memset(buffer.data() + bytes, 0, buffer.size() - bytes);
  for (Bytes done = 0; done < bytes;) {
    Seek(at + done);
    const Fragment& fragment = fragments_[fragment_];
    const Bytes inside = at + done - fragment_at_;
    const Bytes take = std::min(bytes - done, fragment.bytes - inside);
    std::memcpy(buffer.data() + done, static_cast<const std::byte*>(fragment.data) + inside, take);
    done += take;
  }
}

ReadTransfer::ReadTransfer(int file, const Extent& extent, std::span<std::byte> header, Bytes size,
                           std::byte* to, BufferPool* buffers, const std::atomic<bool>* cancelled)
    : BlobTransfer(file, extent, header, size, false, buffers, cancelled),
      to_(to),
      pieces_(Seal::PiecesIn(size)) {}

std::byte* ReadTransfer::Direct(Bytes at, Bytes bytes, Bytes padded) {
  if (to_ == nullptr || bytes != padded || !IsPageAligned(to_ + at)) return nullptr;
  return to_ + at;
}

void ReadTransfer::Arrived(std::size_t piece, Bytes at, Bytes bytes,
                           std::span<const std::byte> padded) {
  const std::byte* data = padded.data();
  if (to_ != nullptr && data != to_ + at) {
    std::memcpy(to_ + at, data, bytes);
    data = to_ + at;  // Verify the copy that the caller will see.
  }
  pieces_[piece] = Hash128Of(data, bytes);
  for (const std::byte byte : padded.subspan(bytes)) {
    if (byte != std::byte{0}) padding_zero_ = false;
  }
}

}  // namespace spillway
