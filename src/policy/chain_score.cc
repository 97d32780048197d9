#include "policy/chain_score.h"

#include <algorithm>

#include "policy/use_levels.h"

namespace spillway {
namespace {

std::uint32_t HintKey(const Visit& visit, bool shared) {
  const std::uint32_t hint = shared || !visit.again ? 0 : *visit.again ? 2 : 1;
  return visit.state * 3 + hint;
}

}  // namespace

ChainScore::ChainScore(std::size_t capacity, const Settings& settings)
    : settings_(settings),
      set_(capacity),
      waits_(settings.waits_max),
      recency_(capacity),
      frequency_(capacity) {}

std::size_t ChainScore::Serve(const Visit& visit) {
  if (set_.Fit(visit.chain)) blocks_.resize(set_.blocks());
  const std::size_t run = set_.LeadingRun(visit.chain);
  forgotten_.clear();
  waits_.Advance(visit.now_s);
  waits_.ForgetOldest(
      visit.now_s, [this](WaitId unit) { return units_[unit].there == 0; }, &forgotten_);
  for (const WaitId unit : forgotten_) Forget(unit);

  const Turn turn = TurnOf(visit);
  Arrive(visit);
  NoteBlocks(visit, turn.number);
  MakeUnits(visit, turn);
  EnterMissing(visit, run);
  OfferUnits();
  if (visit.done) EndSession(visit.session, visit.now_s);
  if (settings_.guarded) {
    guard_.Observe(visit.now_s, visit.chain.size(), run, recency_.Serve(visit),
                   frequency_.Serve(visit));
  }
  return run;
}

// It continues the chain that brought its deepest known block if it has at least
// half of that chain; less is only a beginning that many share.
ChainScore::Turn ChainScore::TurnOf(const Visit& visit) const {
  std::size_t known = 0;
  while (known < visit.chain.size() && blocks_[visit.chain[known]].unit != kNoUnit) ++known;
  if (known == 0) return {};
  const Block& deepest = blocks_[visit.chain[known - 1]];
  if (known * 2 < deepest.chain) return {};
  return {std::min(deepest.turn + 1, kTurnsTold),
          PauseLevel(visit.now_s - waits_.since(deepest.unit))};
}

// Every block of the chain that waited is back.
void ChainScore::Arrive(const Visit& visit) {
  const auto chain = visit.chain;
  for (std::size_t from = 0; from < chain.size();) {
    const WaitId unit = blocks_[chain[from]].unit;
    std::size_t to = from + 1;
    while (to < chain.size() && blocks_[chain[to]].unit == unit) ++to;
    if (unit != kNoUnit) TakeOut(chain.subspan(from, to - from), visit.now_s);
    from = to;
  }
}

void ChainScore::TakeOut(std::span<const BlockId> stretch, double now) {
  const WaitId id = blocks_[stretch.front()].unit;
  Unit& unit = units_[id];
  const auto count = static_cast<std::uint32_t>(stretch.size());
  std::uint32_t there = 0;
  for (const BlockId block : stretch) {
    blocks_[block].unit = kNoUnit;
    if (set_.Holds(block)) ++there;
  }
  const double part = static_cast<double>(count) / static_cast<double>(unit.waiting);
  unit.waiting -= count;
  unit.there -= there;
  if (unit.there == 0) waits_.Withdraw(id);
  waits_.Return(id, unit.waiting == 0 ? 1 : part, now);
  if (unit.waiting == 0) DropUnit(id);
}

void ChainScore::NoteBlocks(const Visit& visit, std::uint32_t turn) {
  BlockId parent = kNoBlock;
  for (const BlockId id : visit.chain) {
    Block& block = blocks_[id];
    if (block.uses == 0) {
      block.parent = parent;
      block.chain = static_cast<std::uint32_t>(visit.chain.size());
      block.turn = turn;
      block.session = visit.session;
    } else if (block.session != visit.session) {
      block.shared = true;
    }
    ++block.uses;
    parent = id;
  }
}

ReturnClass ChainScore::ClassOf(const Visit& visit, const Turn& turn, std::uint32_t uses,
                                bool shared) {
  ReturnTable& table = waits_.table();
  ReturnClass c = table.Under(ReturnTable::kAll, HintKey(visit, shared));
  c = table.Under(c, uses);
  c = table.Under(c, turn.number);
  return table.Under(c, turn.pause);
}

ReturnClass ChainScore::DoneClass(std::uint32_t uses) {
  return waits_.table().Under(waits_.table().Under(ReturnTable::kAll, ReturnTable::kDoneKey), uses);
}

void ChainScore::MakeUnits(const Visit& visit, const Turn& turn) {
  const auto chain = visit.chain;
  fresh_.clear();
  for (std::size_t from = 0; from < chain.size();) {
    const std::uint32_t uses = UseLevel(blocks_[chain[from]].uses);
    const bool shared = blocks_[chain[from]].shared;
    std::size_t to = from;
    std::uint32_t there = 0;
    BlockId deepest = kNoBlock;
    const WaitId id = waits_.Begin(ClassOf(visit, turn, uses, shared), visit.now_s);
    for (; to < chain.size(); ++to) {
      Block& block = blocks_[chain[to]];
      if (UseLevel(block.uses) != uses || block.shared != shared) break;
      block.unit = id;
      if (!set_.Holds(chain[to])) continue;
      ++there;
      deepest = chain[to];
    }
    if (id >= units_.size()) units_.resize(std::size_t{id} + 1);
    units_[id] = {.deepest = deepest,
                  .tail = chain[to - 1],
                  .waiting = static_cast<std::uint32_t>(to - from),
                  .there = there,
                  .uses = uses,
                  .session = visit.session,
                  .before = kNoUnit,
                  .after = kNoUnit,
                  .shared = shared};
    const auto [newest, first] = sessions_.try_emplace(visit.session, id);
    if (!first) {
      units_[id].before = newest->second;
      units_[newest->second].after = id;
      newest->second = id;
    }
    fresh_.push_back(id);
    from = to;
  }
}

void ChainScore::EnterMissing(const Visit& visit, std::size_t from) {
  std::optional<Waits::Candidate> victim;
  for (std::size_t i = from; i < visit.chain.size(); ++i) {
    const BlockId id = visit.chain[i];
    if (set_.Holds(id)) continue;
    if (set_.full() && !MakeRoom(id, visit.now_s, &victim)) return;
    set_.Add(id);
    Block& block = blocks_[id];
    if (block.parent != kNoBlock) ++blocks_[block.parent].children;
    Unit& unit = units_[block.unit];
    ++unit.there;
    unit.deepest = id;
  }
}

// The same victim loses block after block while it may: within one request no
// score changes.
bool ChainScore::MakeRoom(BlockId newcomer, double now, std::optional<Waits::Candidate>* victim) {
  const Leader leader = settings_.guarded ? guard_.leader() : Leader::kScore;
  if (!*victim || !MayLeave(units_[(*victim)->id])) *victim = Worst(leader, now);
  if (!*victim) return false;
  const ReturnClass own = waits_.class_of(blocks_[newcomer].unit);
  if (settings_.refuses && leader == Leader::kScore &&
      waits_.WorthAtOnce(own, now) < (*victim)->worth) {
    ++refused_;
    return false;
  }
  Evict((*victim)->id);
  return true;
}

std::optional<Waits::Candidate> ChainScore::Worst(Leader leader, double now) {
  if (leader == Leader::kScore) return waits_.Least(now);
  const auto found = waits_.LeastBy([&](WaitId id) {
    // Bins rise with age, so of one class and level of use the oldest comes first.
    return leader == Leader::kFrequency ? static_cast<double>(units_[id].uses) : waits_.since(id);
  });
  if (!found) return std::nullopt;
  return Waits::Candidate{*found, 0};
}

bool ChainScore::MayLeave(const Unit& unit) const {
  return unit.there > 0 && blocks_[unit.deepest].children == 0;
}

void ChainScore::Evict(WaitId id) {
  Unit& unit = units_[id];
  const BlockId gone = unit.deepest;
  const BlockId parent = blocks_[gone].parent;
  set_.Remove(gone);
  --unit.there;
  unit.deepest = parent;
  if (parent != kNoBlock) --blocks_[parent].children;
  if (!MayLeave(unit)) waits_.Withdraw(id);
  if (parent == kNoBlock || blocks_[parent].children > 0) return;
  // Its parent waits in another unit, which may leave from now on; those of the
  // request being served are offered when it is over.
  const WaitId above = blocks_[parent].unit;
  if (above == kNoUnit || !set_.Holds(parent) || units_[above].deepest != parent) return;
  if (std::ranges::find(fresh_, above) == fresh_.end()) waits_.Offer(above);
}

void ChainScore::OfferUnits() {
  for (const WaitId id : fresh_) {
    if (MayLeave(units_[id])) waits_.Offer(id);
  }
  fresh_.clear();
}

void ChainScore::EndSession(std::uint64_t session, double now) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  for (WaitId id = found->second; id != kNoUnit; id = units_[id].before) {
    if (!units_[id].shared) waits_.Move(id, DoneClass(units_[id].uses), now);
  }
}

// Its blocks are as if they had never been.
void ChainScore::Forget(WaitId id) {
  BlockId block = units_[id].tail;
  for (std::uint32_t i = 0; i < units_[id].waiting; ++i) {
    const BlockId parent = blocks_[block].parent;
    blocks_[block] = Block();
    block = parent;
  }
  DropUnit(id);
}

void ChainScore::DropUnit(WaitId id) {
  Unit& unit = units_[id];
  if (unit.after != kNoUnit) {
    units_[unit.after].before = unit.before;
  } else if (unit.before != kNoUnit) {
    sessions_[unit.session] = unit.before;
  } else {
    sessions_.erase(unit.session);
  }
  if (unit.before != kNoUnit) units_[unit.before].after = unit.after;
}

}  // namespace spillway
