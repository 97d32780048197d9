// SPDX-License-Identifier: Apache-2.0
#include "fakes/gpu/gpu.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "fakes/gpu/state.h"

namespace fakes {

namespace {

// What this thread has made current since the last reset of the library.
struct Current {
  std::uint64_t life = 0;
  std::vector<int> pushed;  // CUDA.
  int device = 0;           // HIP.
};
thread_local Current thread_current;
std::uint64_t lives = 0;  // Guarded by the Gpu's mutex.

Current& Here() {
  if (thread_current.life != lives) thread_current = {.life = lives, .pushed = {}, .device = 0};
  return thread_current;
}

constexpr std::size_t kFirstContext = 0xC0000;

void PutText(const std::string& text, char* into, int length) {
  std::snprintf(into, static_cast<std::size_t>(std::max(length, 0)), "%s", text.c_str());
}

}  // namespace

Gpu& Gpu::Get() {
  static Gpu* const gpu = new Gpu;  // Threads may be in it while the process ends.
  return *gpu;
}

Gpu::Gpu() {
  const char* told = std::getenv("SPILLWAY_FAKE_GPU");
  Reset(told == nullptr ? "" : told);
}

// Controls

void Gpu::Reset(const std::string& options) {
  std::unique_ptr<State> old;  // Destroying it ends its thread, which needs the mutex.
  {
    const Lock lock(mutex_);
    old = std::move(state_);
  }
  old.reset();
  const Lock lock(mutex_);
  ++lives;
  state_ = std::make_unique<State>(ParseOptions(options), &mutex_);
}

void Gpu::FailCall(std::uint64_t n, int code, bool for_good) {
  const Lock lock(mutex_);
  state_->faults.FailCall(n, code, for_good);
}

void Gpu::FailFunction(const std::string& function, std::uint64_t n, int code, bool for_good) {
  const Lock lock(mutex_);
  state_->faults.FailFunction(function, n, code, for_good);
}

void Gpu::Lose(int code) {
  Lock lock(mutex_);
  state_->faults.Lose(code);
  if (code != 0) {
    state_->queues.Kill(&lock, code);
  } else {
    state_->queues.Revive();
  }
}

void Gpu::Hang(bool hung) {
  const Lock lock(mutex_);
  state_->queues.SetHung(hung);
}

void Gpu::Garble(std::uint64_t n) {
  const Lock lock(mutex_);
  state_->garble = n;
}

void Gpu::Foreign(int card, std::uint64_t bytes) {
  const Lock lock(mutex_);
  state_->memory.SetForeign(card, bytes);
}

int Gpu::Finish() {
  Lock lock(mutex_);
  return state_->queues.Drain(&lock, std::nullopt, 0);
}

bool Gpu::Peek(Address at, void* into, std::size_t bytes) {
  const Lock lock(mutex_);
  const auto spans = state_->memory.Resolve(at, bytes, -1, false);
  if (!spans) return false;
  auto* to = static_cast<std::byte*>(into);
  for (const Span& span : *spans) {
    std::memcpy(to, span.at, span.bytes);
    to += span.bytes;
  }
  return true;
}

bool Gpu::Poke(Address at, const void* from, std::size_t bytes) {
  const Lock lock(mutex_);
  const auto spans = state_->memory.Resolve(at, bytes, -1, true);
  if (!spans) return false;
  const auto* next = static_cast<const std::byte*>(from);
  for (const Span& span : *spans) {
    std::memcpy(span.at, next, span.bytes);
    next += span.bytes;
  }
  return true;
}

std::string Gpu::misuse() {
  const Lock lock(mutex_);
  return state_->complaints.text();
}

void Gpu::ForgetMisuse() {
  const Lock lock(mutex_);
  state_->complaints.Clear();
}

std::string Gpu::leaks() {
  const Lock lock(mutex_);
  std::string all = state_->memory.Ledger() + state_->queues.Ledger();
  for (const std::uint64_t module : state_->modules) all += Text("module ", Hex{module}, "\n");
  for (std::size_t card = 0; card < state_->retained.size(); ++card) {
    if (const int times = state_->retained[card]; times != 0) {
      all += Text("context of card ", card, ", retained ", times, " times\n");
    }
  }
  return all;
}

std::string Gpu::failed() {
  const Lock lock(mutex_);
  return state_->faults.failed();
}

bool Gpu::out_of_reach() {
  const Lock lock(mutex_);
  return state_->faults.out_of_reach() || state_->queues.dead() != 0;
}

std::uint64_t Gpu::calls() {
  const Lock lock(mutex_);
  return state_->faults.calls();
}

std::uint64_t Gpu::calls(const std::string& function) {
  const Lock lock(mutex_);
  return state_->faults.calls(function);
}

std::uint64_t Gpu::pageable() {
  const Lock lock(mutex_);
  return state_->queues.pageable();
}

std::uint64_t Gpu::pending() {
  const Lock lock(mutex_);
  return state_->queues.pending();
}

std::uint64_t Gpu::used(int card) {
  const Lock lock(mutex_);
  return state_->memory.used(card);
}

// Every call

int Gpu::Enter(Lock* lock, const char* function) {
  int code = state_->faults.Enter(function);
  if (code == 0) code = state_->queues.dead();
  if (EndsTheWork(code)) state_->queues.Kill(lock, code);
  if (code == 0 && !initialised_) return kNotInitialized;
  return code;
}

int Gpu::EnterOn(Lock* lock, const char* function, int* card) {
  if (const int code = Enter(lock, function)) return code;
  return CurrentCard(function, card);
}

int Gpu::CurrentCard(const char* function, int* card) {
  const Current& here = Here();
  *card = here.device;
  if (!IsCuda()) return IsCard(*card) ? 0 : kInvalidDevice;
  if (here.pushed.empty() || state_->retained[static_cast<std::size_t>(here.pushed.back())] == 0) {
    state_->complaints.Add(function, " without a current context");
    return kInvalidContext;
  }
  *card = here.pushed.back();
  return 0;
}

bool Gpu::IsCard(int device) const { return device >= 0 && device < state_->options.cards; }

void Gpu::CheckUnused(const char* what, Address at, std::size_t bytes) {
  const std::string user = state_->queues.User(at, bytes);
  if (!user.empty()) {
    state_->complaints.Add(what, " ", Hex{at}, " + ", bytes, ", which is in use by ", user);
  }
}

// Cards

int Gpu::Init(int answer) {
  Lock lock(mutex_);
  if (const int code = state_->faults.Enter("init")) return code;
  if (answer == 0) initialised_ = true;
  return answer;
}

int Gpu::DriverVersion(int* version) {
  Lock lock(mutex_);
  if (const int code = Enter(&lock, "driver_version")) return code;
  *version = state_->options.version;
  return 0;
}

int Gpu::DeviceCount(int* count) {
  Lock lock(mutex_);
  if (const int code = Enter(&lock, "device_count")) return code;
  *count = state_->options.cards;
  return 0;
}

int Gpu::DeviceGet(int* device, int ordinal) {
  Lock lock(mutex_);
  if (const int code = Enter(&lock, "device_get")) return code;
  if (!IsCard(ordinal)) return kInvalidDevice;
  *device = ordinal;
  return 0;
}

int Gpu::DeviceName(char* text, int length, int device) {
  Lock lock(mutex_);
  if (const int code = Enter(&lock, "device_name")) return code;
  if (!IsCard(device)) return kInvalidDevice;
  PutText(state_->options.name, text, length);
  return 0;
}

int Gpu::PciBusId(char* text, int length, int device) {
  Lock lock(mutex_);
  if (const int code = Enter(&lock, "pci_bus_id")) return code;
  if (!IsCard(device)) return kInvalidDevice;
  unsigned domain = 0, bus = 0, slot = 0, function = 0;
  std::sscanf(state_->options.pci.c_str(), "%x:%x:%x.%x", &domain, &bus, &slot, &function);
  std::snprintf(text, static_cast<std::size_t>(length), "%04X:%02X:%02X.%X", domain,
                bus + static_cast<unsigned>(device), slot, function);
  return 0;
}

int Gpu::Uuid(void* bytes, int device) {
  Lock lock(mutex_);
  if (const int code = Enter(&lock, "uuid")) return code;
  if (!IsCard(device)) return kInvalidDevice;
  std::array<unsigned char, 16> uuid{};
  std::size_t digits = 0;
  for (const char c : state_->options.uuid) {
    if (std::isxdigit(static_cast<unsigned char>(c)) == 0 || digits == 32) continue;
    unsigned char& byte = uuid[digits++ / 2];
    byte = static_cast<unsigned char>(byte * 16 + std::stoul(std::string(1, c), nullptr, 16));
  }
  uuid[15] = static_cast<unsigned char>(uuid[15] + device);
  std::memcpy(bytes, uuid.data(), uuid.size());
  return 0;
}

int Gpu::MemoryInfo(std::size_t* free, std::size_t* total) {
  Lock lock(mutex_);
  int card = 0;
  if (const int code = EnterOn(&lock, "memory_info", &card)) return code;
  *free = state_->memory.free_bytes(card);
  *total = state_->options.total;
  return 0;
}

// What is current

int Gpu::ContextRetain(void** context, int device) {
  Lock lock(mutex_);
  if (const int code = Enter(&lock, "context_retain")) return code;
  if (!IsCard(device)) return kInvalidDevice;
  ++state_->retained[static_cast<std::size_t>(device)];
  *context = reinterpret_cast<void*>(kFirstContext + static_cast<std::size_t>(device));
  return 0;
}

int Gpu::ContextRelease(int device) {
  Lock lock(mutex_);
  const int wanted = Enter(&lock, "context_release");
  if (wanted != 0 && state_->options.strict) return wanted;
  if (!IsCard(device)) return kInvalidDevice;
  int& times = state_->retained[static_cast<std::size_t>(device)];
  if (times == 0) {
    state_->complaints.Add("releasing the context of card ", device, ", which nobody retains");
    return kInvalidContext;
  }
  --times;
  if (times == 0 && state_->queues.pending() != 0) {
    state_->complaints.Add("releasing the context of card ", device, " while work is queued");
  }
  return wanted;
}

int Gpu::ContextPush(void* context) {
  Lock lock(mutex_);
  if (const int code = Enter(&lock, "context_push")) return code;
  const auto device = static_cast<int>(reinterpret_cast<std::size_t>(context) - kFirstContext);
  if (!IsCard(device) || state_->retained[static_cast<std::size_t>(device)] == 0) {
    state_->complaints.Add("pushing a context that nobody retains");
    return kInvalidContext;
  }
  Here().pushed.push_back(device);
  return 0;
}

int Gpu::ContextPop(void** context) {
  Lock lock(mutex_);
  const int wanted = Enter(&lock, "context_pop");
  if (wanted != 0 && state_->options.strict) return wanted;
  Current& here = Here();
  if (here.pushed.empty()) {
    state_->complaints.Add("popping a context where none was pushed");
    return kInvalidContext;
  }
  const auto device = static_cast<std::size_t>(here.pushed.back());
  if (context != nullptr) *context = reinterpret_cast<void*>(kFirstContext + device);
  here.pushed.pop_back();
  return wanted;
}

int Gpu::ContextDevice(int* device) {
  Lock lock(mutex_);
  return EnterOn(&lock, "context_device", device);
}

int Gpu::DeviceCurrent(int* device) {
  Lock lock(mutex_);
  if (const int code = Enter(&lock, "device_current")) return code;
  *device = Here().device;
  return 0;
}

int Gpu::DeviceSet(int device) {
  Lock lock(mutex_);
  if (const int code = Enter(&lock, "device_set")) return code;
  if (!IsCard(device)) return kInvalidDevice;
  Here().device = device;
  return 0;
}

int Gpu::current() {
  const Lock lock(mutex_);
  return static_cast<int>(Here().pushed.size());
}

}  // namespace fakes
