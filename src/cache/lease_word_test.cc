// SPDX-License-Identifier: Apache-2.0
// The lease word over all interleavings: small programs of get, release, pin, undo,
// evict, erase, reap and reuse run on the real code of the word. Its atomic is replaced
// by one whose every operation is a step. A model around it knows who really reads, and
// checks what must hold.
#include "cache/lease_word.h"

#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cache/testing/interleaver.h"

namespace spillway {
namespace {

using testing::Interleaver;

// In a sanitizer the longest programs show nothing that the others do not.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SPILLWAY_SHORT_PROGRAMS 1
#endif
#endif

// An atomic whose every operation is a step of the interleaver, and whose weak exchange
// sometimes fails without a reason.
class StepAtomic {
 public:
  StepAtomic(std::uint64_t value) : value_(value) {}  // NOLINT(google-explicit-constructor)

  std::uint64_t load(std::memory_order) const {
    Interleaver::Point();
    return value_;
  }
  std::uint64_t fetch_add(std::uint64_t more, std::memory_order) {
    Interleaver::Point();
    return std::exchange(value_, value_ + more);
  }
  std::uint64_t fetch_sub(std::uint64_t less, std::memory_order) {
    Interleaver::Point();
    return std::exchange(value_, value_ - less);
  }
  void store(std::uint64_t value, std::memory_order) {
    Interleaver::Point();
    value_ = value;
  }
  bool compare_exchange_weak(std::uint64_t& expected, std::uint64_t desired, std::memory_order,
                             std::memory_order) {
    Interleaver::Point();
    if (value_ != expected) {
      expected = value_;
      return false;
    }
    if (Interleaver::MaybeOnce()) return false;
    value_ = desired;
    return true;
  }
  std::uint64_t peek() const { return value_; }

 private:
  std::uint64_t value_;
};

using StepWord = BasicLeaseWord<StepAtomic>;

class RealWord : public StepWord {
 public:
  std::uint64_t Peek() const { return word_.peek(); }
};

// One slot, the strand that owns it and its readers; and beside the word a model of who
// reads what.
template <typename Word>
class World {
 public:
  World() {
    word_.Reserve();
    Publish();
  }

  // --- the strand ---

  void Publish() {
    tenant_ = ++generations_;
    accesses_.at(tenant_) = 0;
    word_.Publish(1);
    visible_ = true;
  }
  void Reuse() {
    Expect(owned_, "reuse of a slot that is not owned");
    owned_ = false;
    Publish();
  }
  void EvictAndReuse() {
    if (!word_.TryEvict()) return;
    Own("evicted");
    Reuse();
  }
  // A copy changes places: the entry stays, with its access count.
  void Rework() {
    const std::uint64_t tenant = tenant_;
    if (!word_.TryEvict()) return;
    Own("reworked");
    Interleaver::AtNextPoint([this, tenant] {
      owned_ = false;
      visible_ = true;
      tenant_ = tenant;
    });
    word_.Restore();
  }
  void Erase() {
    visible_ = false;
    zombie_ = true;  // From the instant of the exchange; Kill says below if not.
    if (word_.Kill()) {
      zombie_ = false;
      Own("erased");
    }
  }
  // A slot that a reader handed over, or that Erase got at once, gets a new entry.
  void ReuseIfReaped() {
    ReapHandedOver();
    if (owned_) Reuse();
  }

  bool IsVisible() const { return visible_; }

  // --- readers: what each does between two steps belongs to the first ---

  class Reader {
   public:
    explicit Reader(World& of) : world_(&of) {}
    void Get() { Took(world_->word_.Acquire(), true); }
    void Pin() { Took(world_->word_.Pin(), false); }
    void Release() {
      if (!std::exchange(holds_, false)) return;
      LetGoAtNextPoint();
      After(world_->word_.Release());
    }
    void Undo() {
      if (!std::exchange(holds_, false)) return;
      LetGoAtNextPoint();
      After(world_->word_.Undo());
      if (counted_) --world_->accesses_.at(held_);
    }

   private:
    World* const world_;
    bool holds_ = false;
    bool counted_ = false;
    std::uint64_t held_ = 0;

    void Took(StepWord::Got got, bool count) {
      if (got == StepWord::Got::kNoAndReap) world_->HandOver();
      if (got != StepWord::Got::kYes) return;
      holds_ = true;
      counted_ = count;
      held_ = world_->tenant_;
      ++world_->holders_;
      if (count) ++world_->accesses_.at(held_);
      world_->Expect(held_ != 0, "a reader got a slot its owner had made private");
    }
    void LetGoAtNextPoint() {
      Interleaver::AtNextPoint([this] {
        --world_->holders_;
        world_->Expect(world_->tenant_ == held_, "the slot changed while it was held_");
      });
    }
    void After(StepWord::After after) {
      if (after == StepWord::After::kReap) world_->HandOver();
    }
  };
  Reader NewReader() { return Reader(*this); }

  // --- what must hold ---

  void CheckStep() const {
    const std::uint64_t word = word_.Peek();
    const SlotState state = StepWord::StateOf(word);
    if (holders_ == 0) return;
    Expect(StepWord::LeasesOf(word) >= static_cast<std::uint64_t>(holders_), "leases too low");
    Expect(state == SlotState::kVisible || state == SlotState::kZombie,
           "taken from under a holder");
    Expect(tenant_ != 0, "written under a holder");
  }

  void CheckEnd() {
    ReapHandedOver();
    const std::uint64_t word = word_.Peek();
    Expect(holders_ == 0, "the program left a holder");
    Expect(StepWord::LeasesOf(word) == 0, "leases are not zero at the end");
    Expect(!zombie_, "a zombie was never reaped");
    if (!visible_) {
      Expect(StepWord::StateOf(word) == SlotState::kPrivate, "not private at the end");
      return;
    }
    Expect(StepWord::StateOf(word) == SlotState::kVisible, "not visible at the end");
    Expect(StepWord::AcquiresOf(word) == 1 + accesses_.at(tenant_), "accesses are not exact");
  }

 private:
  static void Expect(bool ok, const char* what) {
    if (!ok) Interleaver::Fail(what);
  }
  // The slot is the strand's alone: it may write what only lease holders may read.
  void Own(const char* how) {
    Expect(holders_ == 0, how);
    Expect(!owned_, "owned twice");
    owned_ = true;
    visible_ = false;
    tenant_ = 0;
  }
  void HandOver() {
    Expect(zombie_, "reaped though it was no zombie");
    Expect(!handed_over_, "reaped twice");
    Expect(holders_ == 0, "reaped while it was held");
    handed_over_ = true;
    zombie_ = false;
  }
  void ReapHandedOver() {
    if (std::exchange(handed_over_, false)) Own("reaped");
  }

  Word word_;
  std::uint64_t tenant_ = 0;  // The slot's plain fields, by generation; 0: none.
  std::uint64_t generations_ = 0;
  std::array<std::uint64_t, 8> accesses_{};
  int holders_ = 0;
  bool visible_ = false;
  bool zombie_ = false;
  bool handed_over_ = false;
  bool owned_ = false;
};

// --- programs ---

template <typename Word>
using Thread = std::function<void(World<Word>&)>;

template <typename Word>
struct Program {
  const char* name;
  std::vector<Thread<Word>> threads;
};

template <typename Word>
struct Steps {
  using W = World<Word>;
  static void GetRelease(W& world) {
    auto reader = world.NewReader();
    reader.Get();
    reader.Release();
  }
  static void GetUndo(W& world) {
    auto reader = world.NewReader();
    reader.Get();
    reader.Undo();
  }
  static void PinRelease(W& world) {
    auto reader = world.NewReader();
    reader.Pin();
    reader.Release();
  }
  static void GetGetReleaseRelease(W& world) {
    auto first = world.NewReader();
    auto second = world.NewReader();
    first.Get();
    second.Get();
    first.Release();
    second.Release();
  }
  static void GetReleaseTwice(W& world) {
    GetRelease(world);
    GetRelease(world);
  }
  static void Evict(W& world) { world.EvictAndReuse(); }
  static void EvictTwice(W& world) {
    world.EvictAndReuse();
    world.EvictAndReuse();
  }
  static void Rework(W& world) { world.Rework(); }
  static void ReworkThenErase(W& world) {
    world.Rework();
    world.Erase();
    world.ReuseIfReaped();
  }
  static void Erase(W& world) { world.Erase(); }
  static void EraseAndReuse(W& world) {
    world.Erase();
    world.ReuseIfReaped();
  }
  static void EvictThenErase(W& world) {
    world.EvictAndReuse();
    world.Erase();
    world.ReuseIfReaped();
  }
  static void EraseReuseErase(W& world) {
    world.Erase();
    world.ReuseIfReaped();
    if (world.IsVisible()) world.Erase();
  }
};

template <typename Word>
std::vector<Program<Word>> Programs() {
  using S = Steps<Word>;
  return {
      {"get | evict", {S::GetRelease, S::Evict}},
      {"get | erase, reuse", {S::GetRelease, S::EraseAndReuse}},
      {"get | get | rework", {S::GetRelease, S::GetRelease, S::Rework}},
      {"get | undo | rework, erase", {S::GetRelease, S::GetUndo, S::ReworkThenErase}},
      {"get | pin | rework", {S::GetRelease, S::PinRelease, S::Rework}},
      {"get | get | evict", {S::GetRelease, S::GetRelease, S::Evict}},
      {"get | get | erase, reuse", {S::GetRelease, S::GetRelease, S::EraseAndReuse}},
      {"get | get | get | erase", {S::GetRelease, S::GetRelease, S::GetRelease, S::Erase}},
      {"get | undo | evict, erase", {S::GetRelease, S::GetUndo, S::EvictThenErase}},
      {"get | pin | evict, erase", {S::GetRelease, S::PinRelease, S::EvictThenErase}},
      {"pin | undo | erase, reuse", {S::PinRelease, S::GetUndo, S::EraseAndReuse}},
      {"2 leases | get | erase, reuse", {S::GetGetReleaseRelease, S::GetRelease, S::EraseAndReuse}},
      {"get twice | evict twice", {S::GetReleaseTwice, S::EvictTwice}},
      {"get twice | get | evict", {S::GetReleaseTwice, S::GetRelease, S::Evict}},
      {"get twice | erase, reuse, erase", {S::GetReleaseTwice, S::EraseReuseErase}},
#if !defined(SPILLWAY_SHORT_PROGRAMS)
      {"get twice | pin | erase, reuse", {S::GetReleaseTwice, S::PinRelease, S::EraseAndReuse}},
      {"get twice | get | erase, reuse, erase",
       {S::GetReleaseTwice, S::GetRelease, S::EraseReuseErase}},
#endif
      {"get | undo | erase, reuse, erase", {S::GetRelease, S::GetUndo, S::EraseReuseErase}},
  };
}

template <typename Word>
Interleaver::Outcome Explore(Interleaver* interleaver, const Program<Word>& program) {
  return interleaver->Explore([&] {
    auto world = std::make_shared<World<Word>>();
    Interleaver::Run run;
    for (const Thread<Word>& thread : program.threads) {
      run.threads.push_back([world, &thread] { thread(*world); });
    }
    run.at_every_step = [world] { world->CheckStep(); };
    run.at_end = [world] { world->CheckEnd(); };
    return run;
  });
}

TEST(LeaseWord, KeepsItsInvariantsInEveryInterleaving) {
  Interleaver interleaver;
  std::uint64_t all = 0;
  for (const Program<RealWord>& program : Programs<RealWord>()) {
    const Interleaver::Outcome outcome = Explore(&interleaver, program);
    std::string schedule;
    for (const int thread : outcome.schedule) schedule += std::to_string(thread) + " ";
    EXPECT_EQ(outcome.failure, "") << program.name << ": threads " << schedule;
    std::printf("  %9llu interleavings of %s\n",
                static_cast<unsigned long long>(outcome.interleavings), program.name);
    all += outcome.interleavings;
  }
  std::printf("  %9llu interleavings in all\n", static_cast<unsigned long long>(all));
  EXPECT_GT(all, 100'000U);
}

// --- planted bugs: without them, a test that finds nothing would prove nothing ---

// Evicts a visible entry, leased or not.
class EvictsLeased : public RealWord {
 public:
  bool TryEvict() {
    Kill();
    return true;
  }
};

// Checks the leases, then changes the state whatever happened in between.
class EvictsBlindly : public RealWord {
 public:
  bool TryEvict() {
    const std::uint64_t word = word_.load(std::memory_order_relaxed);
    if (StateOf(word) != SlotState::kVisible || LeasesOf(word) != 0) return false;
    Shift(SlotState::kVisible, SlotState::kPrivate);
    return true;
  }
};

class KillsBlindly : public RealWord {
 public:
  bool Kill() {
    const bool alone = LeasesOf(word_.load(std::memory_order_relaxed)) == 0;
    Shift(SlotState::kVisible, alone ? SlotState::kPrivate : SlotState::kZombie);
    return alone;
  }
};

// Claims a zombie by a load and a shift, without an exchange.
class ClaimsBlindly : public RealWord {
 public:
  After Release() {
    const std::uint64_t before = word_.fetch_sub(kLease, std::memory_order_acq_rel);
    if (StateOf(before) != SlotState::kZombie || LeasesOf(before) != 1) return After::kNothing;
    const std::uint64_t now = word_.load(std::memory_order_relaxed);
    if (StateOf(now) != SlotState::kZombie || LeasesOf(now) != 0) return After::kNothing;
    Shift(SlotState::kZombie, SlotState::kPrivate);
    return After::kReap;
  }
};

// The last reader of a zombie does not report it.
class NeverReaps : public RealWord {
 public:
  After Release() {
    word_.fetch_sub(kLease, std::memory_order_acq_rel);
    return After::kNothing;
  }
};

// A late reader does not take its addition back.
class ForgetsToTakeBack : public RealWord {
 public:
  Got Acquire() {
    const std::uint64_t before = word_.fetch_add(kLease + kAcquire, std::memory_order_acq_rel);
    return StateOf(before) == SlotState::kVisible ? Got::kYes : Got::kNo;
  }
};

// A late reader takes its addition back and does not check whether it was the last on a
// zombie.
class TakesBackBlindly : public RealWord {
 public:
  Got Acquire() {
    const std::uint64_t before = word_.fetch_add(kLease + kAcquire, std::memory_order_acq_rel);
    if (StateOf(before) == SlotState::kVisible) return Got::kYes;
    word_.fetch_sub(kLease + kAcquire, std::memory_order_acq_rel);
    return Got::kNo;
  }
};

// A new entry begins with a zero word, even with readers in flight.
class PublishesOverReaders : public RealWord {
 public:
  void Publish(std::uint64_t accesses) {
    word_.store(Bits(SlotState::kVisible) | (accesses << kAcquireShift), std::memory_order_release);
  }
};

// Keeps the leases in flight, and forgets that they will take an access back.
class PublishesWithoutTheirAccesses : public RealWord {
 public:
  void Publish(std::uint64_t accesses) {
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    std::uint64_t fresh = 0;
    do {
      fresh = LeasesOf(word) | Bits(SlotState::kVisible) | (accesses << kAcquireShift);
    } while (!word_.compare_exchange_weak(word, fresh, std::memory_order_acq_rel,
                                          std::memory_order_relaxed));
  }
};

// A pin that adds before it checks: a new entry counts it as an access.
class PinsBeforeLooking : public RealWord {
 public:
  Got Pin() {
    const std::uint64_t before = word_.fetch_add(kLease, std::memory_order_acq_rel);
    if (StateOf(before) == SlotState::kVisible) return Got::kYes;
    return GiveBack(kLease) == After::kReap ? Got::kNoAndReap : Got::kNo;
  }
};

// The failure that some program finds, and after how many interleavings.
template <typename Word>
void ExpectCaught(const char* name) {
  Interleaver interleaver;
  std::uint64_t tried = 0;
  for (const Program<Word>& program : Programs<Word>()) {
    const Interleaver::Outcome outcome = Explore(&interleaver, program);
    tried += outcome.interleavings;
    if (outcome.failure.empty()) continue;
    std::printf("  %-30s caught by `%s` after %llu: %s\n", name, program.name,
                static_cast<unsigned long long>(tried), outcome.failure.c_str());
    return;
  }
  ADD_FAILURE() << name << " was not caught in " << tried << " interleavings";
}

TEST(LeaseWord, PlantedBugsAreCaught) {
  ExpectCaught<EvictsLeased>("EvictsLeased");
  ExpectCaught<EvictsBlindly>("EvictsBlindly");
  ExpectCaught<KillsBlindly>("KillsBlindly");
  ExpectCaught<ClaimsBlindly>("ClaimsBlindly");
  ExpectCaught<NeverReaps>("NeverReaps");
  ExpectCaught<ForgetsToTakeBack>("ForgetsToTakeBack");
  ExpectCaught<TakesBackBlindly>("TakesBackBlindly");
  ExpectCaught<PublishesOverReaders>("PublishesOverReaders");
  ExpectCaught<PublishesWithoutTheirAccesses>("PublishesWithoutTheirAccesses");
  ExpectCaught<PinsBeforeLooking>("PinsBeforeLooking");
}

// --- bounds, on the real word ---

TEST(LeaseWord, RefusesMoreLeasesThanItsBound) {
  LeaseWord word;
  word.Reserve();
  word.Publish(1);
  for (std::uint64_t i = 0; i < LeaseWord::kLeasesMax; ++i) {
    ASSERT_EQ(word.Pin(), LeaseWord::Got::kYes);
  }
  EXPECT_EQ(word.Pin(), LeaseWord::Got::kNo);
  EXPECT_EQ(word.Acquire(), LeaseWord::Got::kNo);
  EXPECT_EQ(LeaseWord::LeasesOf(word.Load()), LeaseWord::kLeasesMax);
  EXPECT_EQ(LeaseWord::AcquiresOf(word.Load()), 1U);
  EXPECT_FALSE(word.TryEvict());
  EXPECT_FALSE(word.Kill());
  for (std::uint64_t i = 1; i < LeaseWord::kLeasesMax; ++i) {
    ASSERT_EQ(word.Release(), LeaseWord::After::kNothing);
  }
  EXPECT_EQ(word.Release(), LeaseWord::After::kReap);
  EXPECT_EQ(LeaseWord::StateOf(word.Load()), SlotState::kPrivate);
}

TEST(LeaseWord, CountsAccessesAndForgetsThemWithItsTenant) {
  LeaseWord word;
  word.Reserve();
  word.Publish(1);
  ASSERT_EQ(word.Acquire(), LeaseWord::Got::kYes);
  ASSERT_EQ(word.Acquire(), LeaseWord::Got::kYes);
  EXPECT_EQ(word.Undo(), LeaseWord::After::kNothing);
  EXPECT_EQ(word.Release(), LeaseWord::After::kNothing);
  EXPECT_EQ(LeaseWord::AcquiresOf(word.Load()), 2U);
  ASSERT_TRUE(word.TryEvict());
  EXPECT_EQ(word.Acquire(), LeaseWord::Got::kNo);
  word.Publish(7);
  EXPECT_EQ(LeaseWord::AcquiresOf(word.Load()), 7U);
}

}  // namespace
}  // namespace spillway
