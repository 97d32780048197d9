// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/card.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/mutex.h"
#include "base/run_dir.h"
#include "device/cpu/machine_memory.h"

namespace spillway {

// A world of one process: a mutex is enough of a lock, and no other slot has an owner.
class Card::PrivateWorld final : public LedgerLock, public SlotLife {
 public:
  LedgerBlock* block() { return &block_; }

  Status Lock() override SPILLWAY_NO_THREAD_SAFETY_ANALYSIS {  // Until Unlock.
    mutex_.lock();
    return {};
  }
  bool TryLock() override SPILLWAY_NO_THREAD_SAFETY_ANALYSIS { return mutex_.try_lock(); }
  void Unlock() override SPILLWAY_NO_THREAD_SAFETY_ANALYSIS { mutex_.unlock(); }

  bool Claim(int) override { return true; }
  void Release(int) override {}
  bool Alive(int) override { return false; }

 private:
  Mutex mutex_;
  LedgerBlock block_{};
};

// A forked child inherits the open file and with it the parent's locks. It
// would keep the parent's share alive after the parent's death, and would
// release it when it exits itself. So each child closes the file at once.
struct Card::ForkGuard {
  Mutex mutex;
  std::vector<Card*> cards SPILLWAY_GUARDED_BY(mutex);

  static ForkGuard& Instance() {
    static auto* guard = new ForkGuard;  // Never destroyed: cards may outlive statics.
    return *guard;
  }
  void Add(Card* card) {
    const MutexLock lock(mutex);
    cards.push_back(card);
  }
  void Remove(Card* card) {
    const MutexLock lock(mutex);
    std::erase(cards, card);
  }

 private:
  ForkGuard() { ::pthread_atfork(&Before, &InParent, &InChild); }
  // The mutex is held from the first of these to one of the others, across the fork.
  static void Before() SPILLWAY_NO_THREAD_SAFETY_ANALYSIS { Instance().mutex.lock(); }
  static void InParent() SPILLWAY_NO_THREAD_SAFETY_ANALYSIS { Instance().mutex.unlock(); }
  static void InChild() SPILLWAY_NO_THREAD_SAFETY_ANALYSIS {
    for (Card* card : Instance().cards) {
      card->ledger_->Abandon();
      card->file_->CloseInChild();
    }
    Instance().mutex.unlock();
  }
};

namespace {

Status CheckName(std::string_view name) {
  constexpr std::size_t kNameMax = 64;
  const bool fits = std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
  if (fits && name.size() <= kNameMax && !name.starts_with('.')) return {};
  return Error{Code::kInvalidArgument,
               fmt::format("\"{}\" cannot name a card: use 1 to {} of a-z A-Z 0-9 . _ -, not "
                           "beginning with a dot",
                           name.substr(0, kNameMax), kNameMax)};
}

}  // namespace

Bytes DefaultCardBytes() {
  // Used if even the kernel does not say how much is available: small enough
  // for any machine.
  constexpr Bytes kWhenUnknown = 256 * kMiB;
  constexpr Bytes kShare = 8;
  const Result<Bytes> available = AvailableMemory();
  return available ? std::max(kMiB, *available / kShare) : kWhenUnknown;
}

Card::Card(const CardOptions& options)
    : name_(options.name),
      reap_period_(options.reap_period),
      clock_(options.clock == nullptr ? SystemClock() : options.clock),
      reaped_at_(clock_->Now()) {}

Result<std::unique_ptr<Card>> Card::Open(const CardOptions& options) {
  if (Status named = CheckName(options.name); !named) return named.error();
  if (options.total && *options.total == 0) {
    return Error{Code::kInvalidArgument, "a card needs a total of more than 0 bytes"};
  }
  std::unique_ptr<Card> card(new Card(options));
  LedgerBlock* block = nullptr;
  LedgerLock* lock = nullptr;
  SlotLife* life = nullptr;
  if (options.name.empty()) {
    card->private_ = std::make_unique<PrivateWorld>();
    block = card->private_->block();
    lock = card->private_.get();
    life = card->private_.get();
  } else {
    const Result<std::string> run_dir = RunDir();
    if (!run_dir) return run_dir.error();
    Result<std::unique_ptr<CardFile>> file =
        CardFile::Open(*run_dir + "/card-" + options.name, options.lock_wait);
    if (!file) return file.error();
    card->file_ = std::move(*file);
    block = card->file_->block();
    lock = card->file_.get();
    life = card->file_.get();
  }
  card->ledger_ = std::make_unique<Ledger>(
      options.name.empty() ? "the private card" : fmt::format("card \"{}\"", options.name), block,
      lock, life);
  const Status joined = card->ledger_->Join(options.total, DefaultCardBytes(),
                                            static_cast<std::uint64_t>(::getpid()));
  if (!joined) return joined.error();
  if (card->shared()) ForkGuard::Instance().Add(card.get());
  return card;
}

Card::~Card() {
  if (ledger_ == nullptr) return;
  if (shared()) ForkGuard::Instance().Remove(this);
  ledger_->Leave();
}

Reading Card::Read() {
  if (shared()) {
    const TimePoint now = clock_->Now();
    TimePoint last = reaped_at_.load(std::memory_order_relaxed);
    if (now - last >= reap_period_ &&
        reaped_at_.compare_exchange_strong(last, now, std::memory_order_relaxed)) {
      ledger_->TryReap();
    }
  }
  return {.total = ledger_->total(), .free = ledger_->Free(), .scope = Scope::kCard};
}

}  // namespace spillway
