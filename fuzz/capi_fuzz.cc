// SPDX-License-Identifier: Apache-2.0
// The C ABI under random calls: any order, any sizes, handles that are old, doubled or invented,
// structs of other lengths. Always: no crash, no leak, valid codes, and a message with every
// failure. Pointers always refer to existing memory, since no check could detect others.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <fuzzer/FuzzedDataProvider.h>

#include "spillway/spillway.h"

namespace {

constexpr std::size_t kLeasesMax = 16;

struct World {
  spillway_cache* cache = nullptr;
  spillway_graph* graph = nullptr;
  std::vector<spillway_lease> leases;
  std::vector<void*> tensors;
};

void Check(spillway_code code) {
  if (code < SPILLWAY_OK || code > SPILLWAY_CORRUPT) std::abort();
  if (code != SPILLWAY_OK && spillway_error_message()[0] == '\0') std::abort();
  if (spillway_code_name(code)[0] == '\0') std::abort();
}

spillway_bytes Name(FuzzedDataProvider& data, std::string* room) {
  *room = data.ConsumeRandomLengthString(24);
  if (data.ConsumeIntegralInRange(0, 30) == 0) return {nullptr, room->size()};
  return {room->data(), room->size()};
}

void Text(spillway_code code, char* text) {
  Check(code);
  if (code == SPILLWAY_OK && text != nullptr && std::strlen(text) > (1U << 24)) std::abort();
  spillway_free(text);
}

void Keep(World& world, const spillway_lease& lease) {
  if (lease.handle == 0) return;
  if (lease.bytes > 0 && lease.data == nullptr) std::abort();
  // Every leased byte must be readable.
  std::uint8_t sum = 0;
  for (std::uint64_t i = 0; i < lease.bytes; ++i) {
    sum = static_cast<std::uint8_t>(sum + static_cast<const std::uint8_t*>(lease.data)[i]);
  }
  volatile std::uint8_t read = sum;
  (void)read;
  world.leases.push_back(lease);
  if (world.leases.size() <= kLeasesMax) return;
  Check(spillway_lease_release(&world.leases.front()));
  world.leases.erase(world.leases.begin());
}

std::int64_t Number(FuzzedDataProvider& data) {
  return data.PickValueInArray<std::int64_t>({0, 1, 5, -1, -2, 1000, INT64_MAX, INT64_MIN,
                                              std::int64_t{data.ConsumeIntegral<std::int16_t>()}});
}

std::size_t SizeOf(FuzzedDataProvider& data, std::size_t right) {
  return data.ConsumeIntegralInRange(0, 7) == 0 ? data.ConsumeIntegralInRange<std::size_t>(0, right)
                                                : right;
}

void Put(World& world, FuzzedDataProvider& data) {
  std::string key;
  std::string parent;
  spillway_put_options with{};
  with.size = SizeOf(data, sizeof with);
  with.tokens = Number(data);
  with.ttl_ms = Number(data);
  with.hint = data.ConsumeIntegralInRange(-1, 3);
  with.eta_ms = Number(data);
  const spillway_bytes name = Name(data, &key);
  with.parent = Name(data, &parent);
  const std::string value = data.ConsumeRandomLengthString(64);
  Check(spillway_cache_put(world.cache, name, value.data(), value.size(),
                           data.ConsumeBool() ? &with : nullptr));
}

void Get(World& world, FuzzedDataProvider& data) {
  std::string key;
  spillway_get_options how{};
  how.size = SizeOf(data, sizeof how);
  how.where = data.ConsumeIntegralInRange(-1, 2);
  how.hint = data.ConsumeIntegralInRange(-1, 3);
  how.wait_ms = data.PickValueInArray<std::int64_t>({0, -1, -2, 1});
  how.eta_ms = Number(data);
  spillway_lease lease;
  Check(spillway_cache_get_with(world.cache, Name(data, &key), data.ConsumeBool() ? &how : nullptr,
                                &lease));
  Keep(world, lease);
}

void Release(World& world, FuzzedDataProvider& data) {
  spillway_lease made_up = {data.ConsumeIntegral<std::uint64_t>(), nullptr, 0};
  if (world.leases.empty()) return Check(spillway_lease_release(&made_up));
  const auto at = data.ConsumeIntegralInRange<std::size_t>(0, world.leases.size() - 1);
  spillway_lease copy = world.leases[at];
  Check(spillway_lease_release(&world.leases[at]));
  // A second release must be detected.
  if (spillway_lease_release(&copy) == SPILLWAY_OK) std::abort();
  world.leases.erase(world.leases.begin() + static_cast<std::ptrdiff_t>(at));
}

// The library's functions have another type than the caller declares. That is harmless as long as
// both are called the same way.
using Deleter = void (*)(void*);
__attribute__((no_sanitize("function"))) void Delete(Deleter deleter, void* tensor) {
  deleter(tensor);
}

void Tensor(World& world, FuzzedDataProvider& data) {
  if (world.leases.empty()) return;
  std::vector<std::int64_t> extents;
  std::vector<std::int64_t> strides;
  for (int i = 0; i < 3; ++i) extents.push_back(Number(data));
  for (int i = 0; i < 3; ++i) strides.push_back(Number(data));
  spillway_shape shape{};
  shape.size = SizeOf(data, sizeof shape);
  shape.device_type = 1;
  shape.code = data.ConsumeIntegral<std::uint8_t>();
  shape.bits = data.ConsumeIntegral<std::uint8_t>();
  shape.lanes = data.ConsumeIntegralInRange<std::uint16_t>(0, 4);
  shape.ndim = data.ConsumeIntegralInRange(-1, 3);
  shape.shape = extents.data();
  shape.strides = data.ConsumeBool() ? strides.data() : nullptr;
  shape.offset = data.ConsumeIntegralInRange<std::uint64_t>(0, 70);
  void* managed = nullptr;
  const spillway_code code =
      spillway_lease_to_dlpack(&world.leases.back(), &shape, data.ConsumeBool() ? 1 : 0, &managed);
  Check(code);
  if (code != SPILLWAY_OK) return;
  world.leases.pop_back();
  world.tensors.push_back(managed);
  // Deleted at once. The place of the deleter depends on the form; a plain tensor and a versioned
  // one differ in their first word.
  const auto* words = static_cast<const std::uint64_t*>(managed);
  const bool versioned = words[0] == (std::uint64_t{1} << 32 | 1);
  Deleter deleter = nullptr;
  std::memcpy(&deleter, versioned ? words + 2 : words + 7, sizeof deleter);
  Delete(deleter, managed);
  world.tensors.pop_back();
}

void Batch(World& world, FuzzedDataProvider& data) {
  constexpr std::size_t kMost = 4;
  std::vector<std::string> keys(kMost);
  std::vector<spillway_operation> operations(data.ConsumeIntegralInRange<std::size_t>(0, kMost));
  std::string value = data.ConsumeRandomLengthString(64);
  std::vector<char> room(96);
  const spillway_fragment piece = {value.data(), value.size(),
                                   data.ConsumeIntegralInRange(-1, 2) == 1 ? 1 : 0};
  const spillway_sink sink = {room.data(), room.size(), 0};
  for (std::size_t i = 0; i < operations.size(); ++i) {
    spillway_operation& operation = operations[i];
    std::memset(&operation, 0, sizeof operation);
    operation.size = SizeOf(data, sizeof operation);
    if (i > 0 && data.ConsumeBool()) operation.size = operations[0].size;
    operation.kind = data.ConsumeIntegralInRange(0, 5);
    operation.hint = data.ConsumeIntegralInRange(-1, 3);
    operation.key = Name(data, &keys[i]);
    operation.source = data.ConsumeBool() ? &piece : nullptr;
    operation.source_count = data.ConsumeIntegralInRange<std::size_t>(0, 1);
    operation.into = data.ConsumeBool() ? &sink : nullptr;
    operation.into_count = operation.into == nullptr ? 0 : 1;
    operation.tokens = Number(data);
    operation.order.after = data.ConsumeIntegralInRange(-1, 3);
    operation.wait_ms = data.PickValueInArray<std::int64_t>({0, -1, -2, 1});
  }
  // A stride other than the struct's size would lead past the array.
  if (!operations.empty() && operations[0].size != sizeof(spillway_operation)) {
    operations.resize(1);
  }
  std::size_t failed = 0;
  const spillway_code code =
      spillway_cache_run(world.cache, operations.data(), operations.size(), 1000, &failed);
  Check(code);
  if (code != SPILLWAY_OK) return;
  if (failed > operations.size()) std::abort();
  for (const spillway_operation& operation : operations) {
    if (operation.code != SPILLWAY_OK && operation.message[0] == '\0') std::abort();
    Keep(world, operation.lease);
  }
}

std::int32_t SeeKey(spillway_bytes key, void* context) {
  *static_cast<std::size_t*>(context) += key.bytes;
  return 0;
}

void Graph(World& world, FuzzedDataProvider& data) {
  std::string a;
  std::string b;
  std::string c;
  const spillway_bytes run = Name(data, &a);
  const spillway_bytes step = Name(data, &b);
  const spillway_bytes other = Name(data, &c);
  char* text = nullptr;
  std::int64_t steps = 0;
  std::size_t seen = 0;
  switch (data.ConsumeIntegralInRange(0, 14)) {
    case 0:
      return Check(spillway_graph_begin(world.graph, run, step, other));
    case 1:
      return Check(spillway_graph_add_step(world.graph, run, step, other));
    case 2:
      return Check(spillway_graph_add_edge(world.graph, run, step, other,
                                           data.ConsumeBool() ? 1 : 0, {nullptr, 0}));
    case 3:
      return Check(
          spillway_graph_bind(world.graph, run, step, other, data.ConsumeIntegralInRange(-1, 3)));
    case 4:
      return Check(spillway_graph_start(world.graph, run, step));
    case 5:
      return Check(spillway_graph_finish(world.graph, run, step, &other, 1));
    case 6:
      return Check(spillway_graph_skip(world.graph, run, step));
    case 7:
      return Check(spillway_graph_fail(world.graph, run, step, data.ConsumeIntegralInRange(-1, 3)));
    case 8:
      return Check(spillway_graph_loop(world.graph, run, step, other));
    case 9:
      return Check(spillway_graph_end(world.graph, run, data.ConsumeIntegralInRange(0, 4)));
    case 10:
      return Text(spillway_graph_steps(world.graph, run, &text), text);
    case 11:
      return Check(spillway_graph_steps_to(world.graph, run, step, &steps));
    case 12:
      return Text(spillway_graph_agents(world.graph, run, &text), text);
    case 13:
      return Check(spillway_graph_order(world.graph, 8, SeeKey, &seen));
    default: {
      const std::string json = data.ConsumeRandomLengthString(256);
      const spillway_code code =
          spillway_graph_load(world.graph, {json.data(), json.size()}, &text);
      return Text(code, text);
    }
  }
}

void Ask(World& world, FuzzedDataProvider& data) {
  std::string key;
  const spillway_bytes name = Name(data, &key);
  char* text = nullptr;
  std::size_t seen = 0;
  std::uint64_t freed = 0;
  spillway_state state{};
  state.size = SizeOf(data, sizeof state);
  spillway_stats stats{};
  stats.size = SizeOf(data, sizeof stats);
  const double pressure = data.ConsumeFloatingPointInRange<double>(-0.5, 1.5);
  switch (data.ConsumeIntegralInRange(0, 10)) {
    case 0:
      return Text(spillway_cache_explain(world.cache, name, &text), text);
    case 1:
      return Text(spillway_cache_stats_json(world.cache, &text), text);
    case 2:
      return Check(spillway_cache_read_state(world.cache, &state));
    case 3:
      return Check(spillway_cache_read_stats(world.cache, &stats));
    case 4:
      return Check(spillway_cache_eviction_order(world.cache, SeeKey, &seen));
    case 5:
      return Check(spillway_cache_apply(world.cache, &pressure, nullptr, nullptr, nullptr));
    case 6:
      return Text(spillway_cache_reclaim(world.cache, 1000, 1, &freed, &text), text);
    case 7:
      return Check(spillway_cache_clear(world.cache));
    case 8:
      return Check(spillway_cache_erase(world.cache, name, nullptr));
    case 9:
      return Check(spillway_cache_attach(world.cache, data.ConsumeBool() ? world.graph : nullptr));
    default:
      return Check(spillway_cache_attach_agents(world.cache, &name, 1));
  }
}

void Many(World& world, FuzzedDataProvider& data) {
  std::string rooms[3];
  spillway_bytes keys[3];
  for (int i = 0; i < 3; ++i) keys[i] = Name(data, &rooms[i]);
  spillway_lease leases[3];
  std::uint8_t present[3];
  std::size_t count = 0;
  spillway_touch_options told{};
  told.size = SizeOf(data, sizeof told);
  told.hint = data.ConsumeIntegralInRange(-1, 3);
  told.agent = keys[1];
  told.run = data.ConsumeBool() ? keys[2] : spillway_bytes{nullptr, 0};
  told.step = data.ConsumeBool() ? keys[1] : spillway_bytes{nullptr, 0};
  switch (data.ConsumeIntegralInRange(0, 5)) {
    case 0:
      return Check(spillway_cache_match(world.cache, keys, 3, &count));
    case 1:
      return Check(spillway_cache_contains_many(world.cache, keys, 3, present, &count));
    case 2:
      return Check(spillway_cache_prefetch(world.cache, keys, 3, &count));
    case 3:
      return Check(spillway_cache_touch_with(world.cache, keys[0], &told, nullptr));
    case 4:
      Check(spillway_cache_get_many(world.cache, keys, 3, leases, &count));
      break;
    default:
      Check(spillway_cache_get_chain(world.cache, keys, 3, leases, &count));
      break;
  }
  for (const spillway_lease& lease : leases) Keep(world, lease);
}

spillway_cache* Open(FuzzedDataProvider& data) {
  spillway_cache* cache = nullptr;
  const std::string settings = data.ConsumeRandomLengthString(32);
  const spillway_code code =
      spillway_cache_open_toml({settings.data(), settings.size()}, nullptr, &cache);
  Check(code);
  Check(spillway_cache_close(cache));
  const char* small =
      "capacity = \"64KiB\"\nentries_max = 1000\ntoken_budget = 5000\nlog = \"off\"\n";
  Check(spillway_cache_open_toml(spillway_text(small), nullptr, &cache));
  return cache;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  FuzzedDataProvider data(bytes, size);
  World world;
  world.cache = Open(data);
  if (world.cache == nullptr) std::abort();
  Check(spillway_graph_open(&world.graph));
  for (int calls = 0; data.remaining_bytes() > 0 && calls < 200; ++calls) {
    switch (data.ConsumeIntegralInRange(0, 7)) {
      case 0:
        Put(world, data);
        break;
      case 1:
        Get(world, data);
        break;
      case 2:
        Release(world, data);
        break;
      case 3:
        Batch(world, data);
        break;
      case 4:
        Graph(world, data);
        break;
      case 5:
        Ask(world, data);
        break;
      case 6:
        Many(world, data);
        break;
      default:
        Tensor(world, data);
        break;
    }
  }
  Check(spillway_cache_close(world.cache));
  Check(spillway_graph_close(world.graph));
  for (spillway_lease& lease : world.leases) Check(spillway_lease_release(&lease));
  return 0;
}
