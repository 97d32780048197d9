// SPDX-License-Identifier: Apache-2.0
#include "kill/child.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "spillway/cache.h"

namespace spillway::kill {

namespace {

using Steady = std::chrono::steady_clock;

std::uint64_t NanosSince(Steady::time_point start) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Steady::now() - start).count());
}

void Complain(std::size_t key, const KeyState& state, std::string_view what) {
  fmt::print(stderr, "kill_loop: key {} ({}): firm {}, pending {} ({}), on disk {}, left {}: {}\n",
             key, NameOf(key), state.firm.load(), state.pending.load(), state.is_pending.load(),
             state.on_disk.load(), state.left.load(), what);
}

class Child {
 public:
  Child(Expected* expected, const ChildSettings& settings)
      : expected_(*expected), counts_(expected->counts()), settings_(settings) {}

  bool Open() {
    Options options = OptionsFor(settings_.dir, settings_.disk);
    options.on_event = [this](const Event& event) { Heard(event); };
    opened_at_ = Steady::now();
    auto cache = Cache::Open(options);
    if (!cache) {
      fmt::print(stderr, "kill_loop: {}\n", cache.error().message);
      return false;
    }
    cache_ = std::move(*cache);
    return true;
  }

  void Verify() {
    std::thread other([this] { VerifyEvery(1); });
    VerifyEvery(0);
    other.join();
    counts_.verified_ns = NanosSince(opened_at_);
  }

  void Load() {
    (void)cache_->Start();
    std::thread other([this] { LoadOn(1); });
    LoadOn(0);
  }

 private:
  // On the strand. An entry's version is stored as its token count.
  void Heard(const Event& event) {
    const std::size_t key = KeyOf(event.key);
    if (key >= expected_.keys()) return;
    KeyState& state = expected_.key(key);
    const auto version = static_cast<std::uint32_t>(event.tokens);
    const bool moved_down = event.action == Action::kBack || event.action == Action::kDemote;
    if (moved_down && event.tier == "host") {  // There is only the disk below it.
      state.on_disk = version;
      ++counts_.backed;
    } else if (event.action == Action::kDestroy || event.action == Action::kExpire) {
      state.left = version;
      if (state.on_disk == version) state.on_disk = 0;
    } else if (event.action == Action::kDrop && event.tier == "disk") {
      if (state.on_disk == version) state.on_disk = 0;
    }
  }

  // --- after a restart ---

  void VerifyEvery(std::size_t first) {
    for (std::size_t key = first; key < expected_.keys(); key += 2) VerifyOne(key);
  }

  void VerifyOne(std::size_t key) {
    KeyState& state = expected_.key(key);
    ++counts_.keys;
    const bool pending = state.is_pending != 0;
    if (!pending && state.firm != 0 && state.on_disk == state.firm) ++counts_.must_be_there;
    auto got = cache_->Get(NameOf(key));
    if (!got) {
      ++counts_.errors;
      return Complain(key, state, got.error().message);
    }
    if (!*got) return ExplainMiss(key, &state);
    const auto version = static_cast<std::uint32_t>((*got)->tokens());
    if (!IsValue(key, version, (*got)->data(), (*got)->size())) {
      ++counts_.wrong_bytes;
      return Complain(key, state, "wrong bytes after a restart");
    }
    if (std::uint64_t none = 0; counts_.first_get_ns == 0) {
      counts_.first_get_ns.compare_exchange_strong(none, NanosSince(opened_at_));
    }
    if (version != state.firm && !(pending && version == state.pending)) {
      ++counts_.stale;
      Complain(key, state, fmt::format("version {} is back after a restart", version));
    }
    ++counts_.hits;
    Settle(&state, version);
  }

  // The version that is there now must be there from now on.
  static void Settle(KeyState* state, std::uint32_t version) {
    state->firm = version;
    state->on_disk = version;
    state->is_pending = 0;
  }

  void ExplainMiss(std::size_t key, KeyState* state) {
    if (state->is_pending != 0) {
      ++counts_.misses_pending;
    } else if (state->firm == 0) {
      ++counts_.misses_never_set;
    } else if (state->left == state->firm) {
      ++counts_.misses_left;
    } else if (state->on_disk != state->firm) {
      ++counts_.misses_not_on_disk;
    } else {
      ++counts_.unexplained;
      Complain(key, *state, "missing after a restart: " + cache_->Explain(NameOf(key)));
    }
    Settle(state, 0);
  }

  // --- load ---

  void LoadOn(std::size_t thread) {
    std::mt19937_64 random(settings_.seed * 2 + thread);
    for (;;) {
      // Each thread writes its own keys and reads all. Some are hot.
      std::size_t key = random() % expected_.keys();
      if (random() % 4 == 0) key = random() % (expected_.keys() / 16 + 2);
      const std::size_t own = key - key % 2 + thread;
      const std::uint64_t what = random() % 100;
      if (what < 45) {
        Set(own < expected_.keys() ? own : thread);
      } else if (what < 50) {
        Erase(own < expected_.keys() ? own : thread);
      } else {
        Get(key, thread);
      }
    }
  }

  void Set(std::size_t key) {
    KeyState& state = expected_.key(key);
    const std::uint32_t version = state.last + 1;
    state.last = version;
    static thread_local std::string value;
    FillValue(key, version, &value);
    state.pending = version;
    state.is_pending = 1;
    const std::string name = NameOf(key);
    const Status set = cache_->Set(name, Source(value), {.tokens = version});
    ++(set ? counts_.sets : counts_.sets_refused);
    if (set) state.firm = version;
    state.is_pending = 0;
  }

  void Erase(std::size_t key) {
    KeyState& state = expected_.key(key);
    state.pending = 0;
    state.is_pending = 1;
    cache_->Erase(NameOf(key));
    ++counts_.erases;
    state.firm = 0;
    state.is_pending = 0;
  }

  void Get(std::size_t key, std::size_t thread) {
    KeyState& state = expected_.key(key);
    const std::uint32_t before = state.firm;
    ++counts_.gets;
    auto got = cache_->Get(NameOf(key));
    if (!got) {
      if (got.error().code == Code::kBusy) return;
      ++counts_.errors;
      return Complain(key, state, got.error().message);
    }
    const bool own = key % 2 == thread;
    if (!*got) {
      if (!own || before == 0) return;
      // An entry is hidden a moment before its event comes.
      (void)cache_->pressure();
      if (state.left == before) return;
      ++counts_.unexplained;
      return Complain(key, state, "missing: " + cache_->Explain(NameOf(key)));
    }
    const auto version = static_cast<std::uint32_t>((*got)->tokens());
    if (!IsValue(key, version, (*got)->data(), (*got)->size())) {
      ++counts_.wrong_bytes;
      return Complain(key, state, "wrong bytes");
    }
    if (own ? version != before : version < before) {
      ++counts_.stale;
      Complain(key, state, fmt::format("version {} was served", version));
    }
  }

  Expected& expected_;
  Counts& counts_;
  const ChildSettings settings_;
  Steady::time_point opened_at_;
  std::unique_ptr<Cache> cache_;
};

}  // namespace

Options OptionsFor(const std::string& dir, Bytes disk) {
  Options options;
  options.capacity = 16 * kMiB;
  options.host_capacity = 32 * kMiB;
  options.disk_dir = dir;
  options.disk_capacity = disk;
  options.write_back_after = Duration::zero();
  options.write_back_rate.reset();
  options.ttl.reset();
  options.token_budget.reset();
  options.sample_period = std::chrono::milliseconds(5);
  options.pressure_source = options.host_pressure_source = options.disk_pressure_source =
      "fixed:0.5";
  return options;
}

void RunChild(Expected* expected, const ChildSettings& settings, int ready) {
  Child child(expected, settings);
  if (!child.Open()) std::_Exit(1);
  child.Verify();
  if (::write(ready, "r", 1) != 1) std::_Exit(1);
  child.Load();
  std::_Exit(1);
}

}  // namespace spillway::kill
