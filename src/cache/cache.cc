// SPDX-License-Identifier: Apache-2.0
// The public face: checks of arguments; all else is done by the Core.
#include "spillway/cache.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <new>

#include <fmt/format.h>

#include "base/errors.h"
#include "cache/batch.h"
#include "cache/core.h"
#include "cache/parts.h"

namespace spillway {

// --- Lease ---

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this != &other) {
    Release();
    core_ = std::exchange(other.core_, nullptr);
    slot_ = other.slot_;
    data_ = other.data_;
    size_ = other.size_;
  }
  return *this;
}

void Lease::Release() noexcept {
  if (Core* core = std::exchange(core_, nullptr); core != nullptr) core->Release(slot_);
}

Tokens Lease::tokens() const { return core_ == nullptr ? 0 : core_->RecordOf(slot_).tokens; }

std::uint64_t Lease::generation() const {
  return core_ == nullptr ? 0 : core_->RecordOf(slot_).generation;
}

std::string_view Lease::agent() const {
  return core_ == nullptr ? std::string_view() : AgentOf(*slot_, core_->RecordOf(slot_));
}

std::string_view Lease::meta() const {
  const Extra* extra = core_ == nullptr ? nullptr : ExtraOf(core_->RecordOf(slot_));
  return extra == nullptr ? std::string_view() : extra->meta;
}

Completion Completion::EventFd(int fd) {
  return Completion([fd] {
    const std::uint64_t one = 1;
    // Fails only if the counter is full, and then the reader is awake anyway.
    [[maybe_unused]] const ssize_t written = write(fd, &one, sizeof one);
  });
}

// --- Cache ---

Cache::Cache(std::shared_ptr<Core> core) : core_(std::move(core)) {}

std::unique_ptr<Cache> Core::Wrap(std::shared_ptr<Core> core) {
  return std::unique_ptr<Cache>(new Cache(std::move(core)));
}

Result<std::unique_ptr<Cache>> Cache::Open(const Options& options) {
  try {
    Result<Core::Parts> parts = OpenParts(options);
    if (!parts) return parts.error();
    parts->hash_seed = RandomHashSeed();
    Result<std::shared_ptr<Core>> core = Core::Open(options, std::move(*parts));
    if (!core) return core.error();
    return Core::Wrap(std::move(*core));
  } catch (const std::bad_alloc&) {
    return NoMemory();
  }
}

Cache::~Cache() {
  if (core_ != nullptr) (void)core_->Close();
}

Status Cache::Close(std::unique_ptr<Cache> cache) {
  if (cache == nullptr) return {};
  const std::shared_ptr<Core> core = std::move(cache->core_);
  return core->Close();
}

Status Cache::FlushDeletes(Duration within) {
  try {
    return core_->FlushDeletes(within);
  } catch (const std::bad_alloc&) {
    return NoMemory();
  }
}

Status Cache::Start() { return core_->Start(); }
void Cache::Stop() { core_->Stop(); }

Status Cache::Set(std::string_view key, const Source& source, const SetOptions& options) {
  try {
    return core_->Set(key, source, options);
  } catch (const std::bad_alloc&) {
    return NoMemory();
  }
}

Result<std::optional<Lease>> Cache::Get(std::string_view key, const GetOptions& options) {
  if (options.where == Place::kDevice && !core_->why_no_address().empty() &&
      (!core_->on_gpu() || options.into.fragments().empty())) {
    return Error{Code::kNotResident, fmt::format("get: {}", core_->why_no_address())};
  }
  try {
    Lease lease;
    const std::optional<Place> where = WhereOf(options);
    const Core::Found found = core_->Find(key, where, &lease);
    if (found == Core::Found::kBelow) {
      if (Status up = core_->Fetch(key, where, options.wait, &lease); !up) return up.error();
    }
    if (!lease) return std::optional<Lease>();
    core_->Advise(key, Advice(options));
    if (options.into.fragments().empty()) return std::optional<Lease>(std::move(lease));
    if (Status ok = core_->CopyOut(key, options.into, options.wait, &lease); !ok) return ok.error();
    return lease ? std::optional<Lease>(Lease()) : std::nullopt;
  } catch (const std::bad_alloc&) {
    return NoMemory();
  }
}

std::size_t Cache::Prefetch(const std::string_view* keys, std::size_t count) {
  return core_->Prefetch(keys, count);
}

std::size_t Cache::GetMany(const std::string_view* keys, std::size_t count, Lease* leases) {
  return core_->GetMany(keys, count, leases);
}

bool Cache::Erase(std::string_view key) { return core_->Erase(key); }
void Cache::Clear() { core_->Clear(); }
bool Cache::Contains(std::string_view key) const { return core_->Contains(key); }
bool Cache::Touch(std::string_view key, Hint hint, std::optional<Duration> eta,
                  std::string_view step) {
  const bool there = core_->Touch(key);
  if (there) core_->Advise(key, Advice(hint, eta, step));
  return there;
}

std::size_t Cache::Match(const std::vector<std::string_view>& keys) const {
  return core_->Match(keys, nullptr);
}

std::vector<Lease> Cache::GetChain(const std::vector<std::string_view>& keys) {
  std::vector<Lease> leases;
  core_->Match(keys, &leases);
  return leases;
}

std::vector<Lease> Cache::GetChain(const std::vector<std::string_view>& keys,
                                   const GetOptions& said) {
  std::vector<Lease> leases = GetChain(keys);
  if (!leases.empty()) core_->Advise(keys[leases.size() - 1], Advice(said));
  return leases;
}

void Cache::Submit(Operation* operations, std::size_t count, Duration within, Completion done) {
  Batch::Submit(core_, operations, count, within, std::move(done));
}

Applied Cache::Apply(std::optional<double> pressure) { return core_->Apply(pressure); }
Reclaimed Cache::Reclaim(Bytes bytes, Duration within) { return core_->Reclaim(bytes, within); }

std::size_t Cache::size() const { return core_->engine().store().entries(); }
Tokens Cache::total_tokens() const { return core_->engine().store().tokens(); }
Level Cache::level() const { return core_->engine().level(); }
Level Cache::level(std::string_view tier) const {
  const std::optional<TierId> id = core_->TierNamed(tier);
  return id ? core_->engine().level(*id) : Level::kRelaxed;
}
Mode Cache::mode() const { return core_->mode(); }

void Cache::Attach(std::shared_ptr<StepGraph> graph) { core_->Attach(std::move(graph), {}); }
void Cache::Attach(AgentOrder order) {
  if (order == nullptr) return core_->Attach(nullptr, {});
  StepGraphOptions options;
  options.run_idle_max = Duration::max() / 4;  // It lives as long as it is named.
  core_->Attach(std::make_shared<StepGraph>(options), std::move(order));
}
std::shared_ptr<StepGraph> Cache::step_graph() { return core_->step_graph(); }
std::shared_ptr<StepGraph> Cache::attached_graph() const {
  std::shared_ptr<StepGraph> graph;
  RunOn(core_->strand(), [&] { graph = core_->engine().graph(); });
  return graph;
}
TimePoint Cache::now() const { return core_->clock().Now(); }

std::optional<double> Cache::pressure() const {
  std::optional<double> pressure;
  RunOn(core_->strand(), [&] { pressure = core_->engine().pressure(); });
  return pressure;
}

std::optional<double> Cache::pressure(std::string_view tier) const {
  const std::optional<TierId> id = core_->TierNamed(tier);
  std::optional<double> pressure;
  if (id) RunOn(core_->strand(), [&] { pressure = core_->engine().pressure(*id); });
  return pressure;
}

bool Cache::is_blocked() const { return core_->engine().is_blocked(); }
Stats Cache::stats() const { return core_->stats(); }
std::vector<DeviceProcess> Cache::processes() const { return core_->Processes(); }
std::string Cache::Explain(std::string_view key) const { return core_->Explain(key); }

std::vector<std::string> Cache::EvictionOrder() const {
  std::vector<std::string> order;
  RunOn(core_->strand(), [&] {
    core_->engine().SyncGraphExactly(core_->clock().Now());
    order = core_->engine().EvictionOrder();
  });
  return order;
}

void Cache::ForEach(const std::function<void(const EntryInfo&)>& visit) const {
  core_->ForEach(visit);
}
bool Cache::Visit(std::string_view key, const std::function<void(const EntryInfo&)>& visit) const {
  return core_->Visit(key, visit);
}
std::vector<Cache::Transition> Cache::History(std::string_view key, std::size_t most) const {
  return core_->History(key, most);
}
std::vector<Cache::InFlight> Cache::TransfersInFlight(std::size_t most) const {
  return core_->TransfersInFlight(most);
}

}  // namespace spillway
