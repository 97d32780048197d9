// SPDX-License-Identifier: Apache-2.0
// The fake GPUs of one library: what CUDA's driver and HIP's runtime have in common,
// over host memory. cuda.cc and hip.cc export it under the names of either; through
// controls.cc a test controls it and asks what it saw.
//
// Functions are those of GpuDriver's table and may be called from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "device/gpu/gpu_driver.h"
#include "fakes/gpu/complaints.h"
#include "fakes/gpu/faults.h"
#include "fakes/gpu/memory.h"
#include "fakes/gpu/options.h"
#include "fakes/gpu/queues.h"

#define FAKE_API extern "C" __attribute__((visibility("default")))

namespace fakes {

using spillway::GpuAccess;
using spillway::GpuCopyKind;
using spillway::GpuMemoryKind;

// Which of the two this library is; by cuda.cc or hip.cc.
bool IsCuda();

class Gpu {
 public:
  // The one of this library.
  static Gpu& Get();

  // Controls. Reset starts all over: the state before is gone.
  void Reset(const std::string& options);
  void FailCall(std::uint64_t n, int code, bool for_good);
  void FailFunction(const std::string& function, std::uint64_t n, int code, bool for_good);
  void Lose(int code);
  void Hang(bool hung);
  // The n-th copy to a device from now on has one bit flipped.
  void Garble(std::uint64_t n);
  void Foreign(int card, std::uint64_t bytes);
  // All that is queued is done, as far as it can be; 0, or why not.
  int Finish();
  // Reads device memory, ignoring all streams; false: there is none.
  bool Peek(Address at, void* into, std::size_t bytes);
  bool Poke(Address at, const void* from, std::size_t bytes);
  std::string misuse();
  void ForgetMisuse();
  std::string leaks();
  std::string failed();
  bool out_of_reach();
  std::uint64_t calls();
  std::uint64_t calls(const std::string& function);
  std::uint64_t pageable();
  std::uint64_t pending();
  std::uint64_t used(int card);

  // Cards.
  int Init(int answer);
  int DriverVersion(int* version);
  int DeviceCount(int* count);
  int DeviceGet(int* device, int ordinal);
  int DeviceName(char* text, int length, int device);
  int PciBusId(char* text, int length, int device);
  int Uuid(void* bytes, int device);
  int MemoryInfo(std::size_t* free, std::size_t* total);

  // What is current on the calling thread.
  int ContextRetain(void** context, int device);
  int ContextRelease(int device);
  int ContextPush(void* context);
  int ContextPop(void** context);
  int ContextDevice(int* device);  // CUDA's, of the context pushed last.
  int DeviceCurrent(int* device);
  int DeviceSet(int device);
  int current();  // How many contexts were pushed and not popped.

  // Memory.
  int AddressReserve(Address* at, std::size_t bytes, std::size_t align, std::uint64_t flags);
  int AddressFree(Address at, std::size_t bytes);
  int MemoryCreate(std::uint64_t* handle, std::size_t bytes, const GpuMemoryKind* kind,
                   std::uint64_t flags);
  int MemoryRelease(std::uint64_t handle);
  int MemoryMap(Address at, std::size_t bytes, std::size_t offset, std::uint64_t handle,
                std::uint64_t flags);
  int MemoryUnmap(Address at, std::size_t bytes);
  int MemoryAccess(Address at, std::size_t bytes, const GpuAccess* access, std::size_t count);
  int Granularity(std::size_t* bytes, const GpuMemoryKind* kind, int recommended);
  int MemoryAlloc(Address* at, std::size_t bytes);
  int MemoryFree(Address at);
  int HostAlloc(void** at, std::size_t bytes, unsigned flags);
  int HostFree(void* at);
  int HostRegister(void* at, std::size_t bytes, unsigned flags);
  int HostUnregister(void* at);

  // Streams, events, copies.
  int StreamPriorities(int* least, int* greatest);
  int StreamCreate(void** stream, unsigned flags, int priority);
  int StreamDestroy(void* stream);
  int StreamWait(void* stream, void* event, unsigned flags);
  int EventCreate(void** event, unsigned flags);
  int EventDestroy(void* event);
  int EventRecord(void* event, void* stream);
  int EventQuery(void* event);
  int CopyToHost(void* to, Address from, std::size_t bytes, void* stream);
  int CopyToDevice(Address to, const void* from, std::size_t bytes, void* stream);
  int CopyOnDevice(Address to, Address from, std::size_t bytes, void* stream);
  int Fill(Address at, unsigned char value, std::size_t bytes, void* stream);
  int CopyBatch(const char* function, const Address* to, const Address* from,
                const std::size_t* bytes, std::size_t count, const GpuCopyKind* kinds,
                const std::size_t* first, std::size_t kind_count, void* stream);

  // Kernels: one copies the pieces of a table, one makes checksums.
  int ModuleLoad(void** module, const void* image);
  int ModuleUnload(void* module);
  int ModuleFunction(void** function, void* module, const char* name);
  int Launch(void* function, const std::array<unsigned, 6>& grid_and_block, void* stream,
             void** arguments, void** extra);

 private:
  struct State;  // What Reset makes anew.
  Gpu();

  // Counts the call; returns the code that the call must return: 0 if it may go on.
  int Enter(Lock* lock, const char* function);
  // The same for a call that concerns the current card.
  int EnterOn(Lock* lock, const char* function, int* card);
  // A call that frees something does so even if it is told to fail, unless the option
  // `strict` is set; calling it again is then no mistake.
  template <typename Work>
  int GiveBack(const char* function, std::uint64_t what, const Work& work);
  int CurrentCard(const char* function, int* card);
  bool IsCard(int device) const;
  void CheckUnused(const char* what, Address at, std::size_t bytes);
  int Copy(const char* function, Address to, Address from, std::size_t bytes, void* stream);

  std::mutex mutex_;
  bool initialised_ = false;  // Only ever becomes true.
  std::unique_ptr<State> state_;
};

}  // namespace fakes
