// SPDX-License-Identifier: Apache-2.0
#include "server/writes.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/mutant.h"
#include "server/keys_of.h"
#include "server/lmcache_key.h"

namespace spillway::server {

namespace {

// A write kept while its command waits.
struct KeptWrite {
  std::string key;
  std::size_t value_at = 0;
  std::shared_ptr<OwnedOptions> options;
  TimePoint deadline;
  std::uint64_t flushes = 0;  // Of its database, when it began.
  AfterWrite then;

  Write write() const { return {key, value_at, options->set, deadline}; }
};

bool ForWantOfRoom(Code code) {
  return code == Code::kBlocked || code == Code::kOverBudget || code == Code::kNoMemory ||
         code == Code::kBusy || code == Code::kDeadline;
}

Stored Failed(Call& call, const Error& error) {
  if (ForWantOfRoom(error.code)) return Stored::kRefused;
  call.Error(fmt::format("ERR {}", error.message));
  return Stored::kFailed;
}

Stored Judge(Call& call, const Direct::Wrote& wrote) {
  const bool no_more = !call.session.may_wait();
  if (wrote.soon) {
    call.state.ReclaimFor(call.session);
    return no_more ? Stored::kRefused : Stored::kRoom;
  }
  if (wrote.on_disk) return no_more ? Stored::kRefused : Stored::kDisk;
  if (wrote.status) return Stored::kYes;
  const Stored failed = Failed(call, wrote.status.error());
  // Room that another client holds and does not fill is given back for this write.
  const bool coming = failed == Stored::kRefused && call.state.ReclaimStalledRoom() && !no_more;
  return coming ? Stored::kRoom : failed;
}

void SubmitWrite(Call& call, const KeptWrite& kept) {
  Session& session = call.session;
  auto one = std::make_unique<Pending::One>();
  one->key = kept.key;
  if (kept.value_at == session.apart_at) {
    one->aside = std::move(session.aside);
  } else {
    one->value = BytesOf(call, kept.value_at);
  }
  one->options = kept.options;
  one->operation.kind = Operation::Kind::kSet;
  one->operation.set = kept.options->set;
  const TimePoint now = call.state.direct().Now();
  if (kept.deadline != TimePoint::max()) {
    one->operation.set.ttl = std::max(kept.deadline - now, Duration(1));
  }
  session.pending = std::make_shared<Pending>();
  session.pending->ttl_from = now;
  session.pending->all.push_back(std::move(one));
  session.half_done = true;
}

void Await(Call& call, Stored why, std::unique_ptr<KeptWrite> kept);

void Finish(Call& call, Stored stored, KeptWrite* kept) {
  // A FLUSHDB that came while it waited came after it.
  const int db = DbKeyOf(kept->key).db;
  if (stored == Stored::kYes && kept->flushes != call.state.FlushesOf(db)) {
    call.state.direct().Erase(kept->key);
  }
  kept->then(call, stored);
}

void TryAgain(Call& call, std::unique_ptr<KeptWrite> kept) {
  const Stored stored = TryWrite(call, kept->write());
  if (Waits(stored)) return Await(call, stored, std::move(kept));
  Finish(call, stored, kept.get());
}

void WrittenToDisk(Call& call, std::unique_ptr<KeptWrite> kept) {
  const Status& status = call.session.pending->all.front()->operation.status;
  const Stored stored = status ? Stored::kYes : Failed(call, status.error());
  if (!MutantOn(Mutant::kStalePendingAnswers)) call.session.pending.reset();
  Finish(call, stored, kept.get());
}

void Await(Call& call, Stored why, std::unique_ptr<KeptWrite> kept) {
  HoldKeys(call);
  if (why == Stored::kRoom) {
    return call.Suspend(Wait::kRoom, [kept = std::move(kept)](Call& later) mutable {
      TryAgain(later, std::move(kept));
    });
  }
  if (MutantOn(Mutant::kStalePendingAnswers) && call.session.pending != nullptr) {
    return WrittenToDisk(call, std::move(kept));
  }
  SubmitWrite(call, *kept);
  call.Suspend(Wait::kDisk, [kept = std::move(kept)](Call& later) mutable {
    WrittenToDisk(later, std::move(kept));
  });
}

}  // namespace

std::string_view BytesOf(const Call& call, std::size_t value_at) {
  return value_at == call.session.apart_at ? call.session.aside.text() : call.arg(value_at);
}

Stored TryWrite(Call& call, const Write& write) {
  Session& session = call.session;
  Direct& direct = call.state.direct();
  if (write.value_at == session.apart_at) {
    if (session.room) {
      return Judge(call, direct.CommitAs(&session.room, write.options, write.deadline));
    }
    if (session.room_refused) return Stored::kRefused;
  }
  return Judge(call,
               direct.Set(write.key, BytesOf(call, write.value_at), write.options, write.deadline));
}

void AwaitWrite(Call& call, Stored why, const Write& write, AfterWrite then) {
  auto kept = std::make_unique<KeptWrite>();
  kept->key = write.key;
  kept->value_at = write.value_at;
  kept->options = std::make_shared<OwnedOptions>(write.options);
  kept->deadline = write.deadline;
  kept->flushes = call.state.FlushesOf(DbKeyOf(write.key).db);
  kept->then = std::move(then);
  Await(call, why, std::move(kept));
}

bool DropInstead(Call& call, std::string_view key, std::string_view cache_key) {
  State& state = call.state;
  Session& session = call.session;
  const OnBlocked what = state.settings.on_blocked;
  const bool drop = what == OnBlocked::kDrop ||
                    (what == OnBlocked::kAuto && !session.said_hello && IsLmcacheKey(key));
  if (!drop) {
    state.counters.refused_writes.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  // After an acknowledged write no older value is found, nor half of a pair.
  state.direct().Erase(cache_key);
  if (const std::string pair = PairOf(key); !pair.empty()) {
    std::string buffer;
    state.direct().Erase(CacheKey(session.db, pair, &buffer));
  }
  state.counters.dropped_writes.fetch_add(1, std::memory_order_relaxed);
  call.dropped = true;
  return true;
}

void Refuse(Call& call) {
  call.state.counters.refused_writes.fetch_add(1, std::memory_order_relaxed);
  call.Error(kOutOfMemory);
}

}  // namespace spillway::server
