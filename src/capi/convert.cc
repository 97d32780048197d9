// SPDX-License-Identifier: Apache-2.0
#include "capi/convert.h"

#include <chrono>
#include <cstdlib>
#include <new>
#include <optional>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "capi/guard.h"

namespace spillway::capi {

namespace {

using std::chrono::milliseconds;

constexpr std::int64_t Ms(Duration duration) {
  return std::chrono::duration_cast<milliseconds>(duration).count();
}

// A count of milliseconds beyond the range of Duration becomes the longest Duration: no limit.
Duration FromMs(std::int64_t ms) {
  constexpr std::int64_t kMost = Ms(Duration::max());
  return ms > kMost ? Duration::max() : ms < -kMost ? Duration::min() : Duration(milliseconds(ms));
}

Duration FromUs(std::int64_t us) {
  constexpr std::int64_t kMost = Ms(Duration::max()) * 1000;
  return us > kMost ? Duration::max() : Duration(std::chrono::microseconds(std::max(us, -kMost)));
}

std::int64_t MsOrNone(const std::optional<Duration>& duration) {
  return duration ? Ms(*duration) : SPILLWAY_NONE;
}
std::optional<Duration> FromMsOrNone(std::int64_t ms) {
  if (ms == SPILLWAY_NONE) return std::nullopt;
  return FromMs(ms);
}

template <typename Fragments, typename Fragment>
Status ToFragments(const Fragment* from, std::size_t count, const char* name, Fragments* to) {
  if (from == nullptr && count > 0)
    return Bad(fmt::format("{} is NULL, its count {}", name, count));
  to->reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const Fragment& fragment = from[i];
    if (fragment.data == nullptr && fragment.bytes > 0) {
      return Bad(fmt::format("{}[{}].data is NULL", name, i));
    }
    const Result<Place> place = ToPlace(fragment.place, name);
    if (!place) return place.error();
    to->push_back({fragment.data, fragment.bytes, *place});
  }
  return {};
}

Result<DeviceOrder> ToDeviceOrder(const spillway_order& order) {
  switch (order.after) {
    case SPILLWAY_AFTER_NONE:
      return DeviceOrder();
    case SPILLWAY_AFTER_STREAM:
      return DeviceOrder::Stream(order.handle);
    case SPILLWAY_AFTER_EVENT:
      if (order.handle == nullptr) return Bad("order.handle is NULL: it must be an event");
      return DeviceOrder::Event(order.handle);
    default:
      return Bad(fmt::format("order.after is {}: it must be a spillway_after", order.after));
  }
}

Status ToPut(const spillway_operation& from, const DeviceOrder& order, Operation* to) {
  to->kind = Operation::Kind::kSet;
  Result<SetOptions> set = ToSetOptions(
      {sizeof(spillway_put_options), from.tokens, from.agent, from.parent, from.meta, from.ttl_ms,
       from.hint, from.no_idle_ttl, from.eta_ms, from.step, from.recompute_us});
  if (!set) return set.error();
  to->set = *set;
  std::vector<Fragment> fragments;
  if (Status ok = ToFragments(from.source, from.source_count, "source", &fragments); !ok) return ok;
  to->source = Source(std::move(fragments), order);
  return {};
}

Status ToGet(const spillway_operation& from, const DeviceOrder& order, Operation* to) {
  to->kind = Operation::Kind::kGet;
  Result<GetOptions> get = ToGetOptions(
      {sizeof(spillway_get_options), from.where, from.hint, from.wait_ms, from.eta_ms, from.step});
  if (!get) return get.error();
  to->get = std::move(*get);
  std::vector<MutableFragment> fragments;
  if (Status ok = ToFragments(from.into, from.into_count, "into", &fragments); !ok) return ok;
  to->get.into = Sink(std::move(fragments), order);
  return {};
}

}  // namespace

Result<Hint> ToHint(std::int32_t hint) {
  if (hint < SPILLWAY_HINT_NONE || hint > SPILLWAY_HINT_DONE) {
    return Bad(fmt::format("hint is {}: it must be a spillway_hint", hint));
  }
  return static_cast<Hint>(hint);
}

Result<Place> ToPlace(std::int32_t place, const char* name) {
  if (place == SPILLWAY_HOST) return Place::kHost;
  if (place == SPILLWAY_DEVICE) return Place::kDevice;
  return Bad(fmt::format("{}: its place is {}: it must be a spillway_place", name, place));
}

std::optional<Duration> EtaOf(std::int64_t ms) {
  if (ms == 0) return std::nullopt;
  return FromMs(ms);
}

spillway_operation ReadOperation(const spillway_operation* from) {
  spillway_operation read{};
  std::memcpy(&read, from, std::min(from->size, sizeof read));
  return read;
}

Status CheckBytes(spillway_bytes bytes, const char* name) {
  if (bytes.data != nullptr || bytes.bytes == 0) return {};
  return Bad(fmt::format("{}.data is NULL, its bytes {}", name, bytes.bytes));
}

Result<std::vector<std::string_view>> KeysOf(const spillway_bytes* keys, std::size_t count) {
  if (keys == nullptr && count > 0) return Bad("keys is NULL");
  std::vector<std::string_view> views;
  views.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (Status ok = CheckBytes(keys[i], "keys[i]"); !ok) return ok.error();
    views.push_back(View(keys[i]));
  }
  return views;
}

Duration Within(std::int64_t ms) { return ms < 0 ? Duration::max() : FromMs(ms); }

spillway_options FromOptions(const Options& from) {
  spillway_options to{};
  to.size = sizeof to;
  to.capacity_bytes = from.capacity.value_or(SPILLWAY_WHOLE_CARD);
  to.unlimited = from.unlimited ? 1 : 0;
  to.entries_max = from.entries_max;
  to.names_bytes_max = from.names_bytes_max;
  to.reserve = from.reserve;
  to.reserve_bytes_min = from.reserve_bytes_min;
  to.threshold_normal = from.thresholds.normal;
  to.threshold_pressure = from.thresholds.pressure;
  to.threshold_critical = from.thresholds.critical;
  to.threshold_emergency = from.thresholds.emergency;
  to.exit_band = from.exit_band;
  to.dwell_ms = Ms(from.dwell);
  to.sample_period_ms = Ms(from.sample_period);
  // Of the policies only "seed" is set: the struct does not own strings, so a literal is needed.
  to.policy = from.policy == "seed" ? "seed" : nullptr;
  to.ttl_ms = MsOrNone(from.ttl);
  to.idle_normal_ms = Ms(from.idle_normal);
  to.idle_critical_ms = Ms(from.idle_critical);
  to.token_budget = from.token_budget.value_or(SPILLWAY_NONE);
  to.reclaim_slice_ms = Ms(from.reclaim_slice);
  to.host_capacity_bytes = from.host_capacity.value_or(0);
  to.disk_capacity_bytes = from.disk_capacity.value_or(0);
  to.write_back_after_ms = MsOrNone(from.write_back_after);
  to.write_back_rate = from.write_back_rate.value_or(0);
  to.room_wait_ms = Ms(from.room_wait);
  to.emergency_time_ms = Ms(from.emergency_time);
  to.host_ttl_ms = MsOrNone(from.host_ttl);
  to.disk_ttl_ms = MsOrNone(from.disk_ttl);
  to.ask = from.ask ? 1 : 0;
  to.disk_read_back = from.disk_read_back ? 1 : 0;
  to.scrub_every_ms = MsOrNone(from.scrub_every);
  to.prefetch_steps = from.prefetch_steps;
  to.history_entries = from.history_entries;
  return to;
}

Result<Options> ToOptions(const spillway_options& given) {
  spillway_options from = FromOptions(Options());
  if (Status ok = ReadSized(&given, "options", &from); !ok) return ok.error();
  Options to;
  if (from.device != nullptr) to.device = from.device;
  if (from.card != nullptr) to.card = from.card;
  if (from.policy != nullptr) to.policy = from.policy;
  if (from.capacity_bytes != SPILLWAY_WHOLE_CARD) to.capacity = from.capacity_bytes;
  to.unlimited = from.unlimited != 0;
  to.entries_max = from.entries_max;
  to.names_bytes_max = from.names_bytes_max;
  to.reserve = from.reserve;
  to.reserve_bytes_min = from.reserve_bytes_min;
  to.thresholds = {from.threshold_normal, from.threshold_pressure, from.threshold_critical,
                   from.threshold_emergency};
  to.exit_band = from.exit_band;
  to.dwell = FromMs(from.dwell_ms);
  to.sample_period = FromMs(from.sample_period_ms);
  to.ttl = FromMsOrNone(from.ttl_ms);
  to.idle_normal = FromMs(from.idle_normal_ms);
  to.idle_critical = FromMs(from.idle_critical_ms);
  to.token_budget.reset();
  if (from.token_budget != SPILLWAY_NONE) to.token_budget = from.token_budget;
  to.reclaim_slice = FromMs(from.reclaim_slice_ms);
  if (from.pressure_source != nullptr) to.pressure_source = from.pressure_source;
  if (from.host_capacity_bytes != 0) to.host_capacity = from.host_capacity_bytes;
  if (from.host_pressure_source != nullptr) to.host_pressure_source = from.host_pressure_source;
  if (from.disk_dir != nullptr) to.disk_dir = from.disk_dir;
  if (from.disk_capacity_bytes != 0) to.disk_capacity = from.disk_capacity_bytes;
  if (from.disk_pressure_source != nullptr) to.disk_pressure_source = from.disk_pressure_source;
  to.write_back_after = FromMsOrNone(from.write_back_after_ms);
  to.write_back_rate.reset();
  if (from.write_back_rate != 0) to.write_back_rate = from.write_back_rate;
  to.room_wait = FromMs(from.room_wait_ms);
  to.emergency_time = FromMs(from.emergency_time_ms);
  to.host_ttl = FromMsOrNone(from.host_ttl_ms);
  to.disk_ttl = FromMsOrNone(from.disk_ttl_ms);
  to.ask = from.ask != 0;
  if (from.ask_group != nullptr) to.ask_group = from.ask_group;
  if (from.zero_before_release != nullptr) to.zero_before_release = from.zero_before_release;
  to.disk_read_back = from.disk_read_back != 0;
  to.scrub_every = FromMsOrNone(from.scrub_every_ms);
  to.prefetch_steps = from.prefetch_steps;
  to.history_entries = from.history_entries;
  if (from.log != nullptr) to.log = from.log;
  if (from.trace != nullptr) to.trace = from.trace;
  return to;
}

Result<SetOptions> ToSetOptions(const spillway_put_options& from) {
  SetOptions to;
  to.tokens = from.tokens;
  for (const auto& [bytes, name, view] :
       {std::tuple{from.agent, "agent", &to.agent}, std::tuple{from.parent, "parent", &to.parent},
        std::tuple{from.meta, "meta", &to.meta}, std::tuple{from.step, "step", &to.step}}) {
    if (Status ok = CheckBytes(bytes, name); !ok) return ok.error();
    *view = View(bytes);
  }
  if (from.ttl_ms != 0) to.ttl = FromMs(from.ttl_ms);
  to.idle_ttl = from.no_idle_ttl == 0;
  Result<Hint> hint = ToHint(from.hint);
  if (!hint) return hint.error();
  to.hint = *hint;
  to.eta = EtaOf(from.eta_ms);
  if (from.recompute_us != 0) to.recompute = FromUs(from.recompute_us);
  return to;
}

Result<GetOptions> ToGetOptions(const spillway_get_options& from) {
  GetOptions to;
  const Result<Place> where = ToPlace(from.where, "where");
  if (!where) return where.error();
  to.where = *where;
  const Result<Hint> hint = ToHint(from.hint);
  if (!hint) return hint.error();
  to.hint = *hint;
  to.eta = EtaOf(from.eta_ms);
  if (Status ok = CheckBytes(from.step, "step"); !ok) return ok.error();
  to.step = View(from.step);
  if (from.wait_ms == SPILLWAY_NONE) {
    to.wait = Duration::zero();
  } else if (from.wait_ms < 0) {
    return Bad(fmt::format("wait_ms is {}: it must be 0, SPILLWAY_NONE or a time", from.wait_ms));
  } else if (from.wait_ms > 0) {
    to.wait = FromMs(from.wait_ms);
  }
  return to;
}

Status ToOperation(const spillway_operation& from, Operation* to) {
  if (Status ok = CheckBytes(from.key, "key"); !ok) return ok;
  to->key = View(from.key);
  const Result<DeviceOrder> order = ToDeviceOrder(from.order);
  if (!order) return order.error();
  switch (from.kind) {
    case SPILLWAY_PUT:
      return ToPut(from, *order, to);
    case SPILLWAY_GET:
      return ToGet(from, *order, to);
    case SPILLWAY_ERASE:
      to->kind = Operation::Kind::kErase;
      return {};
    case SPILLWAY_TOUCH: {
      to->kind = Operation::Kind::kTouch;
      const Result<Hint> hint = ToHint(from.hint);
      if (hint) to->set.hint = *hint;
      to->set.eta = EtaOf(from.eta_ms);
      to->set.step = View(from.step);
      if (!hint) return hint.error();
      return CheckBytes(from.step, "step");
    }
    default:
      return Bad(fmt::format("kind is {}: it must be a spillway_kind", from.kind));
  }
}

char* NewText(std::string_view text) {
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = 0;
  return copy;
}

}  // namespace spillway::capi
