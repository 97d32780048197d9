#include "cache/core.h"

#include <algorithm>
#include <functional>
#include <thread>

#include <fmt/format.h>

#include "base/mutant.h"
#include "base/printable.h"

namespace spillway {

namespace {
constexpr std::size_t kOperationsInFlightMax = 1 << 16;
// Up to here a value is copied on the strand, in one event instead of two: the
// copy costs less than the second event.
constexpr Bytes kCopyOnStrandMax = 4 * kKiB;
// A driver may well be slower than a short period; then it is no reason to
// give it up.
constexpr Duration kShortestDeadline = std::chrono::milliseconds(20);
constexpr Duration kByHandDeadline = std::chrono::milliseconds(200);
}  // namespace

Result<std::shared_ptr<Core>> Core::Open(const Options& options, Parts parts) {
  Engine::Settings settings;
  settings.options = options;
  settings.reserve = parts.reserve;
  settings.hash_bits = parts.hash_bits;
  settings.moves_per_step = parts.moves_per_step;
  auto engine = Engine::Open(settings, std::move(parts.tier));
  if (!engine) return engine.error();
  return std::shared_ptr<Core>(new Core(options, std::move(parts), std::move(*engine)));
}

Core::Core(const Options& options, Parts parts, std::unique_ptr<Engine> engine)
    : options_(options),
      clock_(options.clock ? options.clock : SystemClock()),
      device_(std::move(parts.device)),
      pressure_(std::move(parts.pressure)),
      by_hand_(pressure_),
      total_(parts.total),
      strand_(parts.strand ? std::move(parts.strand) : std::make_unique<CombiningStrand>()),
      executor_(parts.executor ? std::move(parts.executor) : std::make_unique<ThreadExecutor>()),
      engine_(std::move(engine)),
      index_(engine_->store().index()) {
  reap_task_.core = this;
  reap_task_.run = [](Strand::Task* task) { static_cast<ReapTask*>(task)->core->ReapAll(); };
}

Core::~Core() = default;

void Core::Close() {
  Stop();
  while (const int open = batches_.load(std::memory_order_acquire)) {
    batches_.wait(open, std::memory_order_acquire);
  }
  RunOn(*strand_, [this] {
    engine_->Close();
    if (engine_->store().zombies() > 0) self_ = shared_from_this();
  });
}

void Core::BatchEnds() noexcept {
  // Once the count is down we may be gone: only the address is used then.
  std::atomic<int>* batches = &batches_;
  if (batches->fetch_sub(1, std::memory_order_acq_rel) == 1) batches->notify_all();
}

// --- sensing ---

Status Core::Start() {
  const std::lock_guard lock(start_mutex_);
  if (watch_ != nullptr) return {};
  RunOn(*strand_, [this] { engine_->ExpectSamplesEvery(options_.sample_period, clock_->Now()); });
  Poller::Settings settings;
  settings.pace.slowest = options_.sample_period;
  settings.pace.near = std::min(options_.sample_period, settings.pace.near);
  settings.pace.thresholds = options_.thresholds;
  // So that the third period without a reading does not end without UNKNOWN:
  // one passes before the call, two before the watchdog has noticed.
  settings.deadline = std::max(options_.sample_period, kShortestDeadline);
  watch_ = Poller::Shared().Add(pressure_, settings, this);
  return {};
}

void Core::Stop() {
  const std::lock_guard lock(start_mutex_);
  if (watch_ == nullptr) return;
  watch_.reset();
  pass_.reset();
  RunOn(*strand_, [this] {
    engine_->ExpectSamplesEvery(Duration::zero(), clock_->Now());
    engine_->ForgetPressure();
  });
}

Core::SampleValue Core::ValueOf(const Result<Reading>& reading) {
  SampleValue value;
  if (!reading) return value;
  const Bytes reserved = std::min(reading->reserved.value_or(0), reading->total);
  if (reading->total > reserved) {
    value.total = reading->total - reserved;
    value.pressure = reading->pressure();
  }
  return value;
}

Core::Next Core::OnReading(const Result<Reading>& reading) {
  if (reading) {
    const std::lock_guard lock(reading_mutex_);
    reading_ = *reading;
    read_at_ = clock_->Now();
  }
  pass_.emplace(this, ValueOf(reading));
  const Next next = Continue();
  // Relief has mostly nothing to do: not worth another turn to find out.
  return next == Next::kMore ? Continue() : next;
}

Core::Next Core::Continue() {
  RunOn(*strand_, [this] { pass_->Step(); });
  if (pass_->next() != PassSteps::Next::kNothing) return Next::kMore;
  return pass_->acted() ? Next::kAgain : Next::kWait;
}

// --- writes ---

Status Core::CheckSource(std::string_view key, const Source& source,
                         const SetOptions& options) const {
  Bytes bytes = 0;
  for (const Fragment& fragment : source.fragments()) {
    if (fragment.data == nullptr && fragment.bytes > 0) {
      return Error{Code::kInvalidArgument,
                   fmt::format("set '{}': a fragment of {} bytes at a null pointer", Printable(key),
                               fragment.bytes)};
    }
    if (__builtin_add_overflow(bytes, fragment.bytes, &bytes)) {
      return Error{
          Code::kTooLarge,
          fmt::format("set '{}': its fragments are more than any memory can hold", Printable(key))};
    }
    if (fragment.place == Place::kDevice) {
      return Error{Code::kInvalidArgument,
                   fmt::format("set '{}': a device fragment, but the tier is on the cpu device; "
                               "host fragments are right here",
                               Printable(key))};
    }
  }
  return engine_->Check(key, bytes, options);
}

Status Core::Set(std::string_view key, const Source& source, const SetOptions& options) {
  if (Status ok = CheckSource(key, source, options); !ok) return ok;
  Store& store = engine_->store();
  const NewEntry entry{key, store.index().HashOf(key), source.bytes(), options};
  const bool small = entry.bytes <= kCopyOnStrandMax;
  Result<std::uint32_t> slot = std::uint32_t{kNoSlot};
  RunOn(*strand_, [&] {
    const TimePoint now = clock_->Now();
    slot = engine_->Admit(entry, now);
    if (!slot || !small) return;
    store.tier()->Write(store.slots().slot(*slot).data, source);
    engine_->Commit(*slot, now);
  });
  if (!slot) return slot.error();
  if (small) return {};
  store.tier()->Write(store.slots().slot(*slot).data, source);
  RunOn(*strand_, [&] { engine_->Commit(*slot, clock_->Now()); });
  return {};
}

bool Core::Erase(std::string_view key) {
  if (key.empty()) return false;
  const std::uint64_t hash = engine_->store().index().HashOf(key);
  bool was_there = false;
  RunOn(*strand_, [&] { was_there = engine_->Erase(hash, key, clock_->Now()); });
  return was_there;
}

void Core::Clear() {
  RunOn(*strand_, [this] { engine_->Clear(clock_->Now()); });
}

bool Core::TakeTicket() {
  if (in_flight_.fetch_add(1, std::memory_order_relaxed) < kOperationsInFlightMax) return true;
  GiveTicket();
  return false;
}

// --- pressure ---

void Core::PassSteps::Step() {
  Journal& journal = core_->engine_->journal();
  const std::uint64_t before = journal.removed();
  journal.Collect(left_);
  next_ == Next::kLook ? Look() : Relieve();
  journal.Collect(nullptr);
  acted_ = acted_ || journal.removed() != before;
}

void Core::PassSteps::Look() {
  Engine& engine = *core_->engine_;
  const TimePoint now = core_->clock_->Now();
  if (engine.Look(now)) return;
  const Level before = engine.level();
  if (sample_) engine.Sample(sample_->pressure, sample_->total, now);
  const bool run = engine.RunsOnEverySample() || engine.level() != before;
  next_ = run ? Next::kRelieve : Next::kNothing;
}

void Core::PassSteps::Relieve() {
  const TimePoint start = core_->clock_->Now();
  progress_ = core_->engine_->Relieve(
      start, [&] { return core_->clock_->Now() - start > core_->options_.reclaim_slice; });
  if (progress_ != Engine::Progress::kMore) next_ = Next::kNothing;
}

void Core::Pass(const std::optional<SampleValue>& sample, std::vector<Departure>* left) {
  PassSteps steps(this, sample, left);
  while (steps.next() != PassSteps::Next::kNothing) {
    RunOn(*strand_, [&] { steps.Step(); });
  }
}

Applied Core::Apply(std::optional<double> pressure) {
  SampleValue value{pressure, total_};
  if (!pressure) {
    const std::lock_guard lock(start_mutex_);
    if (watch_ == nullptr) {
      value = ValueOf(by_hand_.Read(kByHandDeadline));
    } else {
      // The poller alone reads while it watches: one that hangs has it.
      const std::lock_guard reading_lock(reading_mutex_);
      value = reading_ ? ValueOf(*reading_) : SampleValue{};
    }
  }
  Applied applied;
  Pass(value, &applied.left);
  applied.level = engine_->level();
  return applied;
}

Reclaimed Core::Reclaim(Bytes bytes, Duration) {
  Reclaimed reclaimed;
  if (bytes > 0) {
    reclaimed.why_not_more =
        "nothing here has a copy in a lower tier, and reclaim never destroys the last one";
  }
  return reclaimed;
}

void Core::Look() {
  bool more = true;
  while (more) {
    RunOn(*strand_, [&] { more = engine_->Look(clock_->Now()); });
  }
}

// --- reaping ---

void Core::HandOverForReaping(Slot* slot) noexcept {
  // A zombie is still counted, so the Core is alive; keep it so until Post has
  // returned, even if this reap is what ends it.
  const std::shared_ptr<Core> alive = shared_from_this();
  const std::uint32_t id = engine_->store().slots().IdOf(slot);
  std::uint32_t head = reap_head_.load(std::memory_order_relaxed);
  do {
    slot->next.store(head, std::memory_order_relaxed);
  } while (!reap_head_.compare_exchange_weak(head, id + 1));
  if (!reap_posted_.exchange(true)) strand_->Post(&reap_task_);
}

void Core::ReapAll() {
  // An exchange, so as to see what came before the post.
  if (!MutantOn(Mutant::kReaperSleeps)) reap_posted_.exchange(false);
  std::uint32_t at = reap_head_.exchange(0);
  while (at != 0) {
    const std::uint32_t next =
        engine_->store().slots().slot(at - 1).next.load(std::memory_order_relaxed);
    engine_->Reap(at - 1);
    at = next;
  }
  // Whoever runs the strand holds a reference of its own.
  if (self_ != nullptr && engine_->store().zombies() == 0) self_.reset();
}

// --- answers ---

Stats Core::stats() {
  Stats stats;
  RunOn(*strand_, [&] { engine_->CountInto(&stats); });
  for (const Counter& counter : misses_) {
    stats.misses += counter.value.load(std::memory_order_relaxed);
  }
  CountSource(&stats.source);
  // Hits are not counted when they happen: they stand in the lease words.
  const Store& store = engine_->store();
  stats.hits = store.departed_hits();
  for (std::uint32_t id = 0; id < store.slots().high_water(); ++id) {
    const std::uint64_t word = store.slots().slot(id).word.Load();
    stats.leases += LeaseWord::LeasesOf(word);
    if (LeaseWord::StateOf(word) == SlotState::kVisible) {
      stats.hits += LeaseWord::AcquiresOf(word) - 1;
    }
  }
  return stats;
}

void Core::CountSource(SourceStats* stats) {
  if (pressure_ == nullptr) return;  // Scenarios bring samples, no source.
  stats->name = pressure_->name();
  {
    const std::lock_guard lock(reading_mutex_);
    stats->reading = reading_;
    if (reading_) stats->age = clock_->Now() - read_at_;
  }
  const std::lock_guard lock(start_mutex_);
  if (watch_ == nullptr) return;
  const Poller::Account account = watch_->account();
  stats->watched = true;
  stats->hung = account.hung;
  stats->reads = account.reads;
  stats->failures = account.failures;
  stats->hangs = account.hangs;
  stats->cost = account.cost;
  stats->wait = account.wait;
  stats->last_error = account.last_error;
}

std::string Core::Explain(std::string_view key) {
  std::string text;
  const std::uint64_t hash = engine_->store().index().HashOf(key);
  RunOn(*strand_, [&] { text = engine_->Explain(hash, key, clock_->Now()); });
  return text;
}

}  // namespace spillway
