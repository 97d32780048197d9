// SPDX-License-Identifier: Apache-2.0
// Memory, streams and copies: what a Gpu checks before its parts do it.
#include <cstring>

#include "fakes/gpu/gpu.h"
#include "fakes/gpu/state.h"

namespace fakes {

namespace {

std::uint64_t Id(const void* of) { return reinterpret_cast<std::uint64_t>(of); }
void* Opaque(std::uint64_t id) { return reinterpret_cast<void*>(id); }

Operation CopyOf(Address to, Address from, std::size_t bytes) {
  Operation operation;
  operation.pieces = {{to, from, bytes}};
  return operation;
}

}  // namespace

template <typename Work>
int Gpu::GiveBack(const char* function, std::uint64_t what, const Work& work) {
  Lock lock(mutex_);
  const int wanted = Enter(&lock, function);
  if (wanted != 0 && (state_->options.strict || !initialised_)) return wanted;
  if (state_->gone.contains({function, what})) {
    if (wanted == 0) state_->gone.erase({function, what});
    return wanted;
  }
  int card = 0;
  // Once the card is lost, no context can be made current either.
  if (wanted == 0) {
    if (const int code = CurrentCard(function, &card)) return code;
  }
  const int did = work(&lock);
  if (wanted == 0) return did;
  state_->gone.emplace(function, what);
  return wanted;
}

// Memory

int Gpu::AddressReserve(Address* at, std::size_t bytes, std::size_t align, std::uint64_t flags) {
  Lock lock(mutex_);
  int card = 0;
  if (const int code = EnterOn(&lock, "address_reserve", &card)) return code;
  if (flags != 0) return kInvalidValue;
  const int code = state_->memory.Reserve(at, bytes, align);
  if (code == 0) state_->gone.erase({"address_free", *at});
  return code;
}

int Gpu::AddressFree(Address at, std::size_t bytes) {
  return GiveBack("address_free", at, [&](Lock*) {
    CheckUnused("freeing addresses", at, bytes);
    return state_->memory.FreeRange(at, bytes);
  });
}

int Gpu::MemoryCreate(std::uint64_t* handle, std::size_t bytes, const GpuMemoryKind* kind,
                      std::uint64_t flags) {
  Lock lock(mutex_);
  int card = 0;
  if (const int code = EnterOn(&lock, "memory_create", &card)) return code;
  if (flags != 0 || kind == nullptr || kind->type != 1 || kind->location.type != 1) {
    state_->complaints.Add("creating memory of a kind there is not");
    return kInvalidValue;
  }
  return state_->memory.Create(handle, bytes, kind->location.id);
}

int Gpu::MemoryRelease(std::uint64_t handle) {
  return GiveBack("memory_release", handle,
                  [&](Lock*) { return state_->memory.Release(handle, !IsCuda()); });
}

int Gpu::MemoryMap(Address at, std::size_t bytes, std::size_t offset, std::uint64_t handle,
                   std::uint64_t flags) {
  Lock lock(mutex_);
  int card = 0;
  if (const int code = EnterOn(&lock, "memory_map", &card)) return code;
  if (flags != 0) return kInvalidValue;
  const int code = state_->memory.Map(at, bytes, offset, handle);
  if (code == 0) state_->gone.erase({"memory_unmap", at});
  return code;
}

int Gpu::MemoryUnmap(Address at, std::size_t bytes) {
  return GiveBack("memory_unmap", at, [&](Lock*) {
    CheckUnused("unmapping", at, bytes);
    return state_->memory.Unmap(at, bytes, !IsCuda());
  });
}

int Gpu::MemoryAccess(Address at, std::size_t bytes, const GpuAccess* access, std::size_t count) {
  Lock lock(mutex_);
  int card = 0;
  if (const int code = EnterOn(&lock, "memory_access", &card)) return code;
  for (std::size_t i = 0; i < count; ++i) {
    if (access[i].location.type != 1) return kInvalidValue;
    if (const int code =
            state_->memory.SetAccess(at, bytes, access[i].location.id, access[i].flags)) {
      return code;
    }
  }
  return 0;
}

int Gpu::Granularity(std::size_t* bytes, const GpuMemoryKind* kind, int recommended) {
  Lock lock(mutex_);
  if (const int code = Enter(&lock, "granularity")) return code;
  if (kind == nullptr || !IsCard(kind->location.id) || recommended < 0 || recommended > 1) {
    state_->complaints.Add("the granularity of a kind there is not");
    return kInvalidValue;
  }
  *bytes = state_->options.granularity;
  return 0;
}

int Gpu::MemoryAlloc(Address* at, std::size_t bytes) {
  Lock lock(mutex_);
  int card = 0;
  if (const int code = EnterOn(&lock, "memory_alloc", &card)) return code;
  const int code = state_->memory.Alloc(at, bytes, card);
  if (code == 0) state_->gone.erase({"memory_free", *at});
  return code;
}

int Gpu::MemoryFree(Address at) {
  if (at == 0) return 0;
  return GiveBack("memory_free", at, [&](Lock* lock) {
    // As the real one does: after everything on the card is done.
    if (const int code = state_->queues.Drain(lock, std::nullopt, 0)) return code;
    return state_->memory.Free(at);
  });
}

int Gpu::HostAlloc(void** at, std::size_t bytes, unsigned flags) {
  Lock lock(mutex_);
  int card = 0;
  if (const int code = EnterOn(&lock, "host_alloc", &card)) return code;
  if (flags > 7) return kInvalidValue;
  const int code = state_->memory.HostAlloc(at, bytes);
  if (code == 0) state_->gone.erase({"host_free", Id(*at)});
  return code;
}

int Gpu::HostFree(void* at) {
  return GiveBack("host_free", Id(at), [&](Lock*) {
    if (const auto end = state_->memory.HostEnd(at)) {
      CheckUnused("freeing host memory", Id(at), *end - Id(at));
    }
    return state_->memory.HostFree(at);
  });
}

int Gpu::HostRegister(void* at, std::size_t bytes, unsigned flags) {
  Lock lock(mutex_);
  int card = 0;
  if (const int code = EnterOn(&lock, "host_register", &card)) return code;
  if (flags > 15) return kInvalidValue;
  const int code = state_->memory.Register(at, bytes);
  if (code == 0) state_->gone.erase({"host_unregister", Id(at)});
  return code;
}

int Gpu::HostUnregister(void* at) {
  return GiveBack("host_unregister", Id(at), [&](Lock*) {
    if (const auto end = state_->memory.HostEnd(at)) {
      CheckUnused("unregistering", Id(at), *end - Id(at));
    }
    return state_->memory.Unregister(at);
  });
}

// Streams and events

int Gpu::StreamPriorities(int* least, int* greatest) {
  Lock lock(mutex_);
  int card = 0;
  if (const int code = EnterOn(&lock, "stream_priorities", &card)) return code;
  *least = 0;
  *greatest = -5;
  return 0;
}

int Gpu::StreamCreate(void** stream, unsigned flags, int /*priority*/) {
  Lock lock(mutex_);
  int card = 0;
  if (const int code = EnterOn(&lock, "stream_create", &card)) return code;
  if ((flags & 1) == 0) {
    state_->complaints.Add("a stream that waits for the default one, which nothing here does");
  }
  *stream = Opaque(state_->queues.CreateStream(card));
  return 0;
}

int Gpu::StreamDestroy(void* stream) {
  return GiveBack("stream_destroy", Id(stream),
                  [&](Lock*) { return state_->queues.DestroyStream(Id(stream)); });
}

int Gpu::StreamWait(void* stream, void* event, unsigned flags) {
  Lock lock(mutex_);
  int card = 0;
  if (const int code = EnterOn(&lock, "stream_wait", &card)) return code;
  if (flags != 0) return kInvalidValue;
  return state_->queues.Wait(&lock, Id(stream), Id(event), card);
}

int Gpu::EventCreate(void** event, unsigned /*flags*/) {
  Lock lock(mutex_);
  int card = 0;
  if (const int code = EnterOn(&lock, "event_create", &card)) return code;
  *event = Opaque(state_->queues.CreateEvent(card));
  return 0;
}

int Gpu::EventDestroy(void* event) {
  return GiveBack("event_destroy", Id(event),
                  [&](Lock*) { return state_->queues.DestroyEvent(Id(event)); });
}

int Gpu::EventRecord(void* event, void* stream) {
  Lock lock(mutex_);
  int card = 0;
  if (const int code = EnterOn(&lock, "event_record", &card)) return code;
  return state_->queues.Record(&lock, Id(event), Id(stream), card);
}

int Gpu::EventQuery(void* event) {
  Lock lock(mutex_);
  int card = 0;
  if (const int code = EnterOn(&lock, "event_query", &card)) return code;
  return state_->queues.Query(&lock, Id(event));
}

// Copies

int Gpu::Copy(const char* function, Address to, Address from, std::size_t bytes, void* stream) {
  Lock lock(mutex_);
  int card = 0;
  if (const int code = EnterOn(&lock, function, &card)) return code;
  const bool to_host = std::strcmp(function, "copy_to_host") == 0;
  const bool from_host = std::strcmp(function, "copy_to_device") == 0;
  if (bytes != 0 &&
      (state_->memory.IsDevice(to) == to_host || state_->memory.IsDevice(from) == from_host)) {
    state_->complaints.Add(function, " from ", Hex{from}, " to ", Hex{to},
                           ": memory of the other kind, or none");
    return kInvalidValue;
  }
  Operation operation = CopyOf(to, from, bytes);
  if (from_host && state_->garble > 0) operation.garbled = --state_->garble == 0;
  return state_->queues.Add(&lock, Id(stream), card, std::move(operation));
}

int Gpu::CopyToHost(void* to, Address from, std::size_t bytes, void* stream) {
  return Copy("copy_to_host", Id(to), from, bytes, stream);
}

int Gpu::CopyToDevice(Address to, const void* from, std::size_t bytes, void* stream) {
  return Copy("copy_to_device", to, Id(from), bytes, stream);
}

int Gpu::CopyOnDevice(Address to, Address from, std::size_t bytes, void* stream) {
  return Copy("copy_on_device", to, from, bytes, stream);
}

int Gpu::Fill(Address at, unsigned char value, std::size_t bytes, void* stream) {
  Lock lock(mutex_);
  int card = 0;
  if (const int code = EnterOn(&lock, "fill", &card)) return code;
  if (!state_->memory.IsDevice(at)) {
    state_->complaints.Add("filling ", Hex{at}, ", which is no device memory");
    return kInvalidValue;
  }
  Operation operation = CopyOf(at, 0, bytes);
  operation.kind = Operation::Kind::kFill;
  operation.value = value;
  return state_->queues.Add(&lock, Id(stream), card, std::move(operation));
}

// Pieces of one kind become one operation: they have no order among themselves,
// nor among kinds, so any order is right.
int Gpu::CopyBatch(const char* function, const Address* to, const Address* from,
                   const std::size_t* bytes, std::size_t count, const GpuCopyKind* kinds,
                   const std::size_t* first, std::size_t kind_count, void* stream) {
  Lock lock(mutex_);
  int card = 0;
  if (const int code = EnterOn(&lock, function, &card)) return code;
  bool right = stream != nullptr && count != 0 && kind_count != 0 && kind_count <= count &&
               kinds != nullptr && first != nullptr && first[0] == 0;
  for (std::size_t kind = 0; right && kind < kind_count; ++kind) {
    const std::size_t end = kind + 1 < kind_count ? first[kind + 1] : count;
    right = kinds[kind].order >= 1 && kinds[kind].order <= 3 && first[kind] < end && end <= count;
  }
  if (!right) {
    state_->complaints.Add(function, " of ", count, " pieces and ", kind_count,
                           " kinds: arguments that the driver refuses");
    return kInvalidValue;
  }
  for (std::size_t kind = 0; kind < kind_count; ++kind) {
    const std::size_t end = kind + 1 < kind_count ? first[kind + 1] : count;
    Operation operation;
    for (std::size_t i = first[kind]; i < end; ++i) {
      operation.pieces.push_back({to[i], from[i], bytes[i]});
    }
    // 2 and 3: a source may be read now, before queued operations.
    const bool early = kinds[kind].order != 1;
    if (const int code = state_->queues.Add(&lock, Id(stream), card, std::move(operation), early)) {
      return code;
    }
  }
  return 0;
}

// Kernels

namespace {
// Added to the module's number.
constexpr std::uint64_t kGatherOfModule = 0x1000000;
constexpr std::uint64_t kHashOfModule = 0x2000000;

template <typename Value>
Value Argument(void** arguments, std::size_t at) {
  Value value{};
  std::memcpy(&value, arguments[at], sizeof(value));
  return value;
}
}  // namespace

int Gpu::ModuleLoad(void** module, const void* image) {
  Lock lock(mutex_);
  int card = 0;
  if (const int code = EnterOn(&lock, "module_load", &card)) return code;
  if (image == nullptr) return kInvalidValue;
  state_->modules.insert(++state_->last_module);
  *module = Opaque(state_->last_module);
  return 0;
}

int Gpu::ModuleUnload(void* module) {
  return GiveBack("module_unload", Id(module), [&](Lock*) {
    if (state_->modules.erase(Id(module)) != 0) return 0;
    state_->complaints.Add("unloading module ", Hex{Id(module)}, ", which is not there");
    return kInvalidHandle;
  });
}

int Gpu::ModuleFunction(void** function, void* module, const char* name) {
  Lock lock(mutex_);
  int card = 0;
  if (const int code = EnterOn(&lock, "module_function", &card)) return code;
  if (!state_->modules.contains(Id(module))) return kInvalidHandle;
  if (std::strcmp(name, "spillway_gather") == 0) {
    *function = Opaque(Id(module) + kGatherOfModule);
  } else if (std::strcmp(name, "spillway_hash") == 0) {
    *function = Opaque(Id(module) + kHashOfModule);
  } else {
    return kNotFound;
  }
  return 0;
}

int Gpu::Launch(void* function, const std::array<unsigned, 6>& grid_and_block, void* stream,
                void** arguments, void** extra) {
  Lock lock(mutex_);
  int card = 0;
  if (const int code = EnterOn(&lock, "launch", &card)) return code;
  const bool hash = state_->modules.contains(Id(function) - kHashOfModule);
  if (!hash && !state_->modules.contains(Id(function) - kGatherOfModule)) {
    state_->complaints.Add("launching function ", Hex{Id(function)}, ", which is not there");
    return kInvalidHandle;
  }
  const auto& [gx, gy, gz, bx, by, bz] = grid_and_block;
  if (gx == 0 || gy == 0 || gz == 0 || bx == 0 || by == 0 || bz == 0 || bx * by * bz > 1024 ||
      arguments == nullptr || extra != nullptr) {
    state_->complaints.Add("launching a kernel with arguments that the driver refuses");
    return kInvalidValue;
  }
  const auto at = Argument<std::uint64_t>(arguments, 0);
  const auto count = Argument<std::uint32_t>(arguments, 1);
  Operation operation;
  if (hash) {
    const auto results = Argument<std::uint64_t>(arguments, 3);
    const auto threads = std::uint64_t{gx} * bx;
    if (at % 16 != 0 || count == 0 || threads < count * std::uint64_t{8}) {
      state_->complaints.Add("hashing ", count, " pieces at ", Hex{at}, " by ", threads,
                             " threads");
      return kInvalidValue;
    }
    operation.kind = Operation::Kind::kHash;
    operation.pieces = {{0, at, count * kHashedAtOnce}, {results, 0, count * std::uint64_t{16}}};
  } else {
    operation.kind = Operation::Kind::kGather;
    operation.table = {0, at, count * sizeof(Piece)};
  }
  return state_->queues.Add(&lock, Id(stream), card, std::move(operation));
}

}  // namespace fakes
