// The kernel that gathers scattered pieces of device memory into one, or
// scatters one into many. It ships as PTX text in gather_ptx.h, which
// tools/gather_ptx.sh makes of this file.

struct Piece {
  unsigned long long to;
  unsigned long long from;
  unsigned long long bytes;
};

// A block copies piece after piece; threads side by side, 16 bytes each where
// all is aligned so.
extern "C" __global__ void spillway_gather(const Piece* pieces, unsigned count) {
  if (blockIdx.x >= count) return;
  // The table may lie on the host: the next line of it is fetched ahead.
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
