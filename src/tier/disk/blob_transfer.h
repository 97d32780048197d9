// SPDX-License-Identifier: Apache-2.0
// Copies one blob between memory and the data file: its header, and its value
// in pieces of 1 MiB, several of them in flight. Page-aligned pieces are read
// or written directly. All others go through a buffer whose rest is zeroed, so
// that the disk never gets stray bytes of memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "spillway/fragment.h"
#include "tier/blob.h"
#include "tier/disk/aligned_buffer.h"
#include "tier/disk/files.h"
#include "tier/disk/page_allocator.h"

namespace spillway {

// The common part of both directions.
class BlobTransfer : public IoFeed {
 public:
  bool Next(Io* io) final;
  void Done(const Io& io, std::int64_t result) final;

  bool is_cancelled() const { return is_cancelled_; }
  // 0, an errno, or kCutShort.
  static constexpr int kCutShort = -1;
  int error() const { return error_; }
  Bytes moved() const { return moved_; }  // Bytes read from or written to the file.

 protected:
  // `header` is memory for the header, in whole pages; the value follows it on disk.
  BlobTransfer(int file, const Extent& extent, std::span<std::byte> header, Bytes size, bool write,
               BufferPool* buffers, const std::atomic<bool>* cancelled);

  // Called before the header is read or written; a write does that after all pieces.
  virtual void Heading() {}
  // A piece is about to be written from `data`.
  virtual void Leaving(std::size_t piece, const std::byte* data, Bytes bytes) = 0;
  // Returns the memory that the value's bytes [at, at + bytes) can be read into
  // or written from directly, `padded` being the whole pages they take; null:
  // use a buffer.
  virtual std::byte* Direct(Bytes at, Bytes bytes, Bytes padded) = 0;
  virtual void Fill(Bytes at, Bytes bytes, std::span<std::byte> buffer) = 0;
  // A piece was read into `data`, which is a buffer or the result of Direct.
  virtual void Arrived(std::size_t piece, Bytes at, Bytes bytes,
                       std::span<const std::byte> padded) = 0;

 private:
  void Describe(std::uint64_t tag, Io* io);
  struct Borrowed {
    std::uint64_t tag;
    AlignedBuffer buffer;
  };

  const int file_;
  const Extent extent_;
  const std::span<std::byte> header_;
  const Bytes size_;
  const bool write_;
  BufferPool* const buffers_;
  const std::atomic<bool>* const cancelled_;

  // The next operation. Tags: 0 is the header, i is piece i - 1. A write ends
  // with the header, so that the checksums in it can be computed on the way.
  std::uint64_t next_ = 0;
  std::vector<Borrowed> borrowed_;
  Bytes moved_ = 0;
  int error_ = 0;
  bool is_cancelled_ = false;
};

class WriteTransfer final : public BlobTransfer {
 public:
  // `encode` writes the header when the checksums of all pieces are known:
  // `given`, or if that is empty, the ones passed to `encode`.
  using Encode = std::function<void(const std::vector<Hash128>& pieces)>;
  WriteTransfer(int file, const Extent& extent, std::span<std::byte> header, Bytes size,
                const Source& source, const std::vector<Hash128>& given, Encode encode,
                BufferPool* buffers, const std::atomic<bool>* cancelled);

 private:
  void Heading() override { encode_(pieces_); }
  void Leaving(std::size_t piece, const std::byte* data, Bytes bytes) override;
  std::byte* Direct(Bytes at, Bytes bytes, Bytes padded) override;
  void Fill(Bytes at, Bytes bytes, std::span<std::byte> buffer) override;
  void Arrived(std::size_t, Bytes, Bytes, std::span<const std::byte>) override {}
  // Finds the fragment that contains `at`, which must not fall from call to call.
  void Seek(Bytes at);

  const FragmentList<Fragment> fragments_;
  const Encode encode_;
  const bool makes_pieces_;
  std::vector<Hash128> pieces_;
  std::size_t fragment_ = 0;
  Bytes fragment_at_ = 0;  // Its offset in the value.
};

class ReadTransfer final : public BlobTransfer {
 public:
  // With a null `to` the bytes are only verified.
  ReadTransfer(int file, const Extent& extent, std::span<std::byte> header, Bytes size,
               std::byte* to, BufferPool* buffers, const std::atomic<bool>* cancelled);

  // The checksums of the value as read.
  const std::vector<Hash128>& pieces() const { return pieces_; }
  // Whether the bytes from the value's end to its page's end are zero, as written.
  bool is_padding_zero() const { return padding_zero_; }

 private:
  std::byte* Direct(Bytes at, Bytes bytes, Bytes padded) override;
  void Fill(Bytes, Bytes, std::span<std::byte>) override {}
  void Leaving(std::size_t, const std::byte*, Bytes) override {}
  void Arrived(std::size_t piece, Bytes at, Bytes bytes,
               std::span<const std::byte> padded) override;

  std::byte* const to_;
  std::vector<Hash128> pieces_;
  bool padding_zero_ = true;
};

}  // namespace spillway
