// SPDX-License-Identifier: Apache-2.0
#include "stress/worker.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <iterator>
#include <thread>

#include <fmt/format.h>

namespace spillway::stress {

namespace {
constexpr std::size_t kNoParent = Keys::kAll;
constexpr std::size_t kHeldMost = 48;
constexpr std::size_t kFlightsMost = 6;
}  // namespace

// A batch in flight, with all the memory it points to.
struct Worker::Flight {
  std::vector<Operation> operations;
  std::vector<std::size_t> keys;
  std::vector<std::vector<std::byte>> values;
  std::atomic<bool> done{false};
};

Worker::Worker(unsigned number, Board* board, Cache* cache, Surroundings surroundings)
    : number_(number),
      board_(*board),
      cache_(*cache),
      surroundings_(surroundings),
      random_(board->settings.seed * 1'000'003 + number),
      acknowledged_(Keys::kAll),
      seen_(Keys::kAll) {}

Worker::~Worker() = default;

void Worker::Run(std::uint64_t ops) {
  for (std::uint64_t i = 0; i < ops; ++i) One();
  while (!flights_.empty()) Land(/*wait=*/true);
  while (!held_.empty()) Release(held_.size() - 1);
}

void Worker::One() {
  const std::uint64_t draw = random_.Below(1000);
  if (draw < 330) return Get();
  if (draw < 380) return GetMany();
  if (draw < 400) return GetInto();
  if (draw < 570) return SetOwn();
  if (draw < 670) return SetCommon();
  if (draw < 690) return SetChain();
  if (draw < 730) return GetChain();
  if (draw < 860) return ReleaseSome();
  if (draw < 890) {
    counts_.erased += cache_.Erase(board_.keys[AnyKey()]) ? 1 : 0;
    return;
  }
  if (draw < 910) {
    (void)cache_.Contains(board_.keys[AnyKey()]);
    return;
  }
  if (draw < 925) {
    ++(cache_.Touch(board_.keys[AnyKey()]) ? counts_.hits : counts_.misses);
    return;
  }
  if (draw < 960) return Submit();
  if (draw < 990) return Land(/*wait=*/false);
  if (draw < 994)
    return surroundings_.clock->Advance(std::chrono::milliseconds(random_.Below(300)));
  Rare();
}

void Worker::Rare() {
  if (random_.OneIn(2)) return Apply();
  switch (random_.Below(400)) {
    case 0:
      return cache_.Clear();
    case 1:
    case 2:
      return Look();
    case 3:
      (void)cache_.Start();
      return;
    // The sampler reads in real time and this clock jumps: most of its time is UNKNOWN,
    // so it is stopped more often than started.
    case 10:
    case 11:
    case 12:
    case 13:
    case 4:
      return cache_.Stop();
    case 5:
      return surroundings_.clock->Advance(std::chrono::seconds(random_.Below(150)));
    case 6:
      (void)cache_.EvictionOrder();
      return;
    case 7:
    case 8:
      (void)cache_.Explain(board_.keys[AnyKey()]);
      return;
    case 9:
      (void)cache_.Reclaim(random_.Below(1 << 20), std::chrono::milliseconds(1));
      return;
    default:
      return;
  }
}

// --- pressure ---

void Worker::Apply() {
  ++counts_.passes;
  const auto share = static_cast<double>(random_.Below(1000)) / 1000;
  switch (random_.Below(16)) {
    case 0:
      surroundings_.pressure->Set(std::nullopt);
      break;  // UNKNOWN, for readers of the source.
    case 1:
      surroundings_.pressure->Set(share);
      break;
    case 2:
    case 3:
      (void)cache_.Apply(std::nullopt);
      break;
    case 4:
      (void)cache_.Apply(0.96 + share * 0.04);
      break;  // EMERGENCY.
    case 5:
    case 6:
    case 7:
      (void)cache_.Apply(0.70 + share * 0.25);
      break;
    default:
      (void)cache_.Apply(share * 0.6);
      break;
  }
  if (random_.OneIn(3)) return;
  // Mostly there is room again soon; and enough time passes for a level to be left, but
  // for few entries to become idle.
  surroundings_.pressure->Set(share * 0.6);
  (void)cache_.Apply(share * 0.6);
  surroundings_.clock->Advance(std::chrono::milliseconds(2100));
  (void)cache_.Apply(share * 0.6);
}

// Queries that are valid at any time, and whose answers must make sense.
void Worker::Look() {
  std::uint64_t entries = 0;
  cache_.ForEach([&](const Cache::EntryInfo& info) {
    ++entries;
    if (info.key.empty() || info.access_count == 0) board_.Fail("ForEach showed no entry");
  });
  if (entries > Keys::kAll * 2) board_.Fail(fmt::format("ForEach showed {} entries", entries));
  const Stats stats = cache_.stats();
  if (stats.device.bytes > stats.device.capacity) {
    board_.Fail(fmt::format("{} bytes in a tier of {}", stats.device.bytes, stats.device.capacity));
  }
  if (stats.entries > Keys::kAll) board_.Fail(fmt::format("{} entries live", stats.entries));
  (void)cache_.mode();
  (void)cache_.pressure();
  (void)cache_.is_blocked();
}

// --- writing ---

std::size_t Worker::OwnKey() {
  const std::size_t threads = board_.settings.threads;
  return random_.Below(Keys::kOwn / threads) * threads + number_;
}

SetOptions Worker::OptionsFor(std::size_t key, std::uint64_t count, std::size_t parent) {
  SetOptions options;
  options.tokens = TokensOf(key, count);
  if (parent != kNoParent) options.parent = board_.keys[parent];
  if (key % 5 == 0) options.agent = board_.keys[key];
  if (key % 7 == 0) options.meta = board_.keys[key];
  if (random_.OneIn(16)) options.ttl = std::chrono::milliseconds(1 + random_.Below(20'000));
  return options;
}

bool Worker::Set(std::size_t key, std::size_t parent) {
  const std::uint64_t count = board_.Issue(key);
  FillValue(key, count, DrawSize(&random_), &buffer_);
  // One fragment or three: the value is the same.
  const std::size_t third = buffer_.size() / 3;
  Source source(buffer_.data(), buffer_.size());
  if (random_.OneIn(4)) {
    source = Source({{buffer_.data(), third},
                     {buffer_.data() + third, third},
                     {buffer_.data() + 2 * third, buffer_.size() - 2 * third}});
  }
  const Status status = cache_.Set(board_.keys[key], source, OptionsFor(key, count, parent));
  if (!status) {
    ++counts_.refused;
    const Code code = status.error().code;
    if (code == Code::kNoMemory) {
      ++counts_.no_memory;
    } else if (code != Code::kBlocked && code != Code::kOverBudget && code != Code::kBusy) {
      board_.Fail(fmt::format("set was refused: {}", status.error().message));
    }
    return false;
  }
  ++counts_.sets;
  acknowledged_[key] = count;
  return true;
}

void Worker::SetOwn() { Set(OwnKey(), kNoParent); }

void Worker::SetCommon() { Set(Keys::kOwn + random_.Below(Keys::kCommon), kNoParent); }

void Worker::SetChain() {
  const std::size_t chain = random_.Below(Keys::kChains);
  for (std::size_t block = 0; block < Keys::kBlocks; ++block) {
    if (!Set(Keys::Block(chain, block), block == 0 ? kNoParent : Keys::Block(chain, block - 1))) {
      return;
    }
  }
}

// --- reading ---

std::optional<std::uint64_t> Worker::Verify(std::size_t key, const std::byte* data,
                                            std::size_t size, const char* how) {
  const Checked checked = CheckValue(key, data, size);
  if (!checked.whole) {
    board_.Fail(fmt::format("{} '{}': {} bytes that nobody set", how, board_.keys[key], size));
    return std::nullopt;
  }
  if (!checked.count) return std::nullopt;
  if (*checked.count > board_.issued(key)) {
    board_.Fail(
        fmt::format("{} '{}': the value of a set that has not been", how, board_.keys[key]));
  }
  return checked.count;
}

void Worker::Hold(std::size_t key, Lease lease, bool fresh) {
  ++counts_.hits;
  const std::optional<std::uint64_t> count = Verify(key, lease.data(), lease.size(), "get");
  if (count) {
    if (lease.tokens() != TokensOf(key, *count)) board_.Fail("the tokens of another set");
    // With one writer, the version that is read never decreases, and the writer itself
    // reads what it wrote.
    if (fresh && Keys::IsOwn(key)) {
      const bool mine = key % board_.settings.threads == number_;
      if (*count < seen_[key] || (mine && *count != acknowledged_[key])) {
        board_.Fail(fmt::format("'{}': read set {} after {}, mine {}", board_.keys[key], *count,
                                seen_[key], mine ? acknowledged_[key] : 0));
      }
      seen_[key] = *count;
    }
  }
  held_.push_back({std::move(lease), key, count});
  while (held_.size() > kHeldMost) Release(random_.Below(held_.size()));
}

void Worker::Get() {
  const std::size_t key = random_.OneIn(2) ? OwnKey() : AnyKey();
  Result<std::optional<Lease>> got = cache_.Get(board_.keys[key]);
  if (!got) return board_.Fail(fmt::format("get: {}", got.error().message));
  if (!*got) {
    ++counts_.misses;
    return;
  }
  Hold(key, std::move(**got));
}

void Worker::GetMany() {
  std::array<std::string_view, 40> names;
  std::array<std::size_t, 40> ids{};
  std::array<Lease, 40> leases;
  const std::size_t count = 1 + random_.Below(names.size());
  for (std::size_t i = 0; i < count; ++i) {
    ids.at(i) = AnyKey();
    names.at(i) = board_.keys[ids.at(i)];
  }
  const std::size_t hits = cache_.GetMany(names.data(), count, leases.data());
  counts_.misses += count - hits;
  for (std::size_t i = 0; i < count; ++i) {
    if (leases.at(i)) Hold(ids.at(i), std::move(leases.at(i)));
  }
}

void Worker::GetInto() {
  const std::size_t key = AnyKey();
  buffer_.resize(131'072);
  GetOptions options;
  options.into = Sink(buffer_.data(), buffer_.size());
  Operation get;
  get.key = board_.keys[key];
  get.get = options;
  std::atomic<bool> done{false};
  cache_.Submit(&get, 1, std::chrono::hours(1), Completion([&] { done.store(true); }));
  if (!done.load()) board_.Fail("a get was not done when Submit returned");
  ++(get.found ? counts_.hits : counts_.misses);
  if (get.found) Verify(key, buffer_.data(), get.bytes, "get into");
}

void Worker::GetChain() {
  const std::size_t chain = random_.Below(Keys::kChains);
  std::vector<std::string_view> names;
  for (std::size_t block = 0; block < Keys::kBlocks; ++block) {
    names.push_back(board_.keys[Keys::Block(chain, block)]);
  }
  if (random_.OneIn(2)) {
    if (cache_.Match(names) > names.size()) board_.Fail("Match found more than was asked for");
    return;
  }
  std::vector<Lease> leases = cache_.GetChain(names);
  for (std::size_t block = 0; block < leases.size(); ++block) {
    if (!leases[block]) return board_.Fail("a chain with a hole");
    Hold(Keys::Block(chain, block), std::move(leases[block]));
  }
}

void Worker::Release(std::size_t at) {
  Held& held = held_[at];
  if (Verify(held.key, held.lease.data(), held.lease.size(), "release") != held.count) {
    board_.Fail(fmt::format("'{}' changed under its lease", board_.keys[held.key]));
  }
  if (held.count && *held.count != board_.issued(held.key)) ++counts_.leases_over_departures;
  std::swap(held, held_.back());
  held_.pop_back();
}

void Worker::ReleaseSome() {
  for (std::uint64_t n = random_.Below(4); n > 0 && !held_.empty(); --n) {
    Release(random_.Below(held_.size()));
  }
}

// --- batches ---

void Worker::Submit() {
  if (flights_.size() >= kFlightsMost) return Land(/*wait=*/false);
  auto flight = std::make_unique<Flight>();
  const std::size_t count = random_.Below(8);
  flight->operations.resize(count);
  flight->keys.resize(count);
  flight->values.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    Operation& operation = flight->operations[i];
    std::size_t& key = flight->keys[i];
    key = AnyKey();
    const std::uint64_t draw = random_.Below(10);
    if (draw < 5) {
      // Sets of my own keys could complete in any order in a batch: common keys only.
      key = Keys::kOwn + random_.Below(Keys::kCommon);
      const std::uint64_t set = board_.Issue(key);
      FillValue(key, set, DrawSize(&random_), &flight->values[i]);
      operation.kind = Operation::Kind::kSet;
      operation.source = Source(flight->values[i].data(), flight->values[i].size());
      operation.set = OptionsFor(key, set, kNoParent);
    } else {
      operation.kind = draw < 8   ? Operation::Kind::kGet
                       : draw < 9 ? Operation::Kind::kErase
                                  : Operation::Kind::kTouch;
    }
    operation.key = board_.keys[key];
  }
  Flight* in_air = flight.get();
  flights_.push_back(std::move(flight));
  const Duration within = random_.OneIn(8) ? Duration::zero() : Duration(std::chrono::hours(1));
  cache_.Submit(in_air->operations.data(), count, within,
                Completion([in_air] { in_air->done.store(true); }));
}

void Worker::Land(bool wait) {
  for (std::size_t at = 0; at < flights_.size(); ++at) {
    while (wait && !flights_[at]->done.load()) std::this_thread::yield();
    if (!flights_[at]->done.load()) continue;
    const std::unique_ptr<Flight> landed = std::move(flights_[at]);
    flights_.erase(flights_.begin() + static_cast<std::ptrdiff_t>(at));
    for (std::size_t i = 0; i < landed->operations.size(); ++i) {
      Operation& operation = landed->operations[i];
      switch (operation.kind) {
        case Operation::Kind::kSet:
          ++(operation.status ? counts_.sets : counts_.refused);
          if (!operation.status && operation.status.error().code == Code::kDeadline) ++counts_.late;
          break;
        case Operation::Kind::kGet:
          if (operation.lease) {
            Hold(landed->keys[i], std::move(operation.lease), /*fresh=*/false);
          } else {
            ++counts_.misses;
          }
          break;
        case Operation::Kind::kErase:
          counts_.erased += operation.found ? 1 : 0;
          break;
        case Operation::Kind::kTouch:
          ++(operation.found ? counts_.hits : counts_.misses);
          break;
      }
    }
    return;
  }
}

}  // namespace spillway::stress
