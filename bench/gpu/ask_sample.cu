// SPDX-License-Identifier: Apache-2.0
// Allocates GIB gibibytes in one of the toolkit's ways, touches both ends and frees them:
//   nvcc -DWAY_driver|WAY_runtime|WAY_pool -cudart static|shared ask_sample.cu -lcuda
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  const size_t bytes = (argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1) << 30;
  void* at = nullptr;
  int code = 0;
#if defined(WAY_driver)
  CUdevice device;
  CUcontext context;
  CUdeviceptr address = 0;
  code = cuInit(0);
  if (code == 0) code = cuDeviceGet(&device, 0);
  if (code == 0) code = cuDevicePrimaryCtxRetain(&context, device);
  if (code == 0) code = cuCtxPushCurrent(context);
  if (code == 0) code = cuMemAlloc(&address, bytes);
  at = reinterpret_cast<void*>(address);
#elif defined(WAY_runtime)
  code = cudaMalloc(&at, bytes);
#else
  code = cudaMallocAsync(&at, bytes, nullptr);
#endif
  if (code == 0) code = cudaMemset(at, 1, 1);
  if (code == 0) code = cudaMemset(static_cast<char*>(at) + bytes - 1, 1, 1);
  if (code == 0) code = cudaDeviceSynchronize();
  std::printf("code %d, error kept: %d\n", code, static_cast<int>(cudaGetLastError()));
  return code == 0 ? 0 : 1;
}
