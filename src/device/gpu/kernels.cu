// SPDX-License-Identifier: Apache-2.0
// The kernels we ship. tools/kernels_ptx.sh compiles this file to PTX text in
// kernels.ptx. One kernel gathers scattered pieces of device memory into one, or
// scatters one piece into many; the other computes checksums of pieces that have arrived.

struct Piece {
  unsigned long long to;
  unsigned long long from;
  unsigned long long bytes;
};

// Each block copies piece after piece. Its threads copy adjacent 16-byte words
// where everything is aligned to 16 bytes, otherwise single bytes.
extern "C" __global__ void spillway_gather(const Piece* pieces, unsigned count) {
  if (blockIdx.x >= count) return;
  // The table may be in host memory: its next entry is fetched ahead.
  Piece next = pieces[blockIdx.x];
  for (unsigned i = blockIdx.x; i < count; i += gridDim.x) {
    const Piece piece = next;
    if (i + gridDim.x < count) next = pieces[i + gridDim.x];
    if (((piece.to | piece.from | piece.bytes) & 15) == 0) {
      const uint4* from = reinterpret_cast<const uint4*>(piece.from);
      uint4* to = reinterpret_cast<uint4*>(piece.to);
      const unsigned long long words = piece.bytes / 16;
      unsigned long long at = threadIdx.x;
      for (; at + 3ull * blockDim.x < words; at += 4ull * blockDim.x) {
        const uint4 a = from[at];
        const uint4 b = from[at + blockDim.x];
        const uint4 c = from[at + 2ull * blockDim.x];
        const uint4 d = from[at + 3ull * blockDim.x];
        to[at] = a;
        to[at + blockDim.x] = b;
        to[at + 2ull * blockDim.x] = c;
        to[at + 3ull * blockDim.x] = d;
      }
      for (; at < words; at += blockDim.x) to[at] = from[at];
    } else {
      const unsigned char* from = reinterpret_cast<const unsigned char*>(piece.from);
      unsigned char* to = reinterpret_cast<unsigned char*>(piece.to);
      for (unsigned long long at = threadIdx.x; at < piece.bytes; at += blockDim.x) {
        to[at] = from[at];
      }
    }
  }
}

// XXH3-128 of whole pieces of 1 MiB, equal to hash.h on the host. Eight threads work
// on one piece, each on its own eight of every 64 bytes; a warp works on four pieces.
namespace {

using Word = unsigned long long;

constexpr Word kPiece = 1ull << 20;
constexpr Word kPrime32 = 0x9E3779B1ull;
constexpr Word kPrimeA = 0x9E3779B185EBCA87ull;
constexpr Word kPrimeB = 0xC2B2AE3D27D4EB4Full;
constexpr unsigned kStripes = 16;  // Of 64 bytes, in a block of 1 KiB.
constexpr unsigned kBlocks = kPiece / 1024;
constexpr unsigned kAll = 0xFFFFFFFFu;

__device__ inline Word Avalanche(Word hash) {
  hash ^= hash >> 37;
  hash *= 0x165667919E3779F9ull;
  return hash ^ (hash >> 32);
}

// The contribution of a pair of threads' accumulators to the final hash, for
// even threads; summed over the eight.
__device__ inline Word Merge(Word own, Word other, Word key, Word other_key) {
  const Word a = own ^ key;
  const Word b = other ^ other_key;
  Word sum = (a * b) ^ __umul64hi(a, b);
  sum += __shfl_xor_sync(kAll, sum, 2);
  sum += __shfl_xor_sync(kAll, sum, 4);
  return sum;
}

struct Block {
  Word data[kStripes];

  __device__ inline void Load(const Word* at) {
#pragma unroll
    for (unsigned i = 0; i < kStripes; ++i) data[i] = __ldcs(at + 8 * i);
  }
};

}  // namespace

// `keys`: words of the secret: 23 for the stripes, 8 each for scrambling, for the
// last stripe, and for the two halves of the final merge; then 8 initial values.
extern "C" __global__ void __launch_bounds__(128)
    spillway_hash(const Word* data, unsigned count, const Word* keys, Word* hashes) {
  const unsigned lane = threadIdx.x & 7;
  const unsigned piece = (blockIdx.x * blockDim.x + threadIdx.x) / 8;
  // Threads without a piece repeat the last one: all threads of a warp must
  // take part in shuffles.
  const Word* at = data + Word(piece < count ? piece : count - 1) * (kPiece / 8) + lane;
  Word key[kStripes];
#pragma unroll
  for (unsigned i = 0; i < kStripes; ++i) key[i] = keys[i + lane];
  const Word scramble = keys[23 + lane];
  const Word last = keys[31 + lane];
  Word accumulator = keys[55 + lane];

  Block now;
  Block next;
  now.Load(at);
  for (unsigned block = 1; block < kBlocks; ++block) {
    at += 128;
    next.Load(at);
    if (block + 8 < kBlocks) {
      asm volatile("prefetch.global.L2 [%0];" ::"l"(at + 8 * 128 + 15 * lane));
    }
    Word sum = 0;
#pragma unroll
    for (unsigned i = 0; i < kStripes; ++i) {
      const Word mixed = now.data[i] ^ key[i];
      accumulator += (mixed & 0xFFFFFFFFull) * (mixed >> 32);
      sum += now.data[i];
    }
    accumulator += __shfl_xor_sync(kAll, sum, 1);
    accumulator = (accumulator ^ (accumulator >> 47) ^ scramble) * kPrime32;
    now = next;
  }
  Word sum = 0;
#pragma unroll
  for (unsigned i = 0; i < kStripes; ++i) {
    const Word mixed = now.data[i] ^ (i + 1 == kStripes ? last : key[i]);
    accumulator += (mixed & 0xFFFFFFFFull) * (mixed >> 32);
    sum += now.data[i];
  }
  accumulator += __shfl_xor_sync(kAll, sum, 1);

  const Word other = __shfl_xor_sync(kAll, accumulator, 1);
  const Word low = Merge(accumulator, other, keys[39 + lane], keys[39 + (lane ^ 1)]);
  const Word high = Merge(accumulator, other, keys[47 + lane], keys[47 + (lane ^ 1)]);
  if (lane != 0 || piece >= count) return;
  hashes[2ull * piece] = Avalanche(low + kPiece * kPrimeA);
  hashes[2ull * piece + 1] = Avalanche(high + ~(kPiece * kPrimeB));
}
