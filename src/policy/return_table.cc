// SPDX-License-Identifier: Apache-2.0
#include "policy/return_table.h"

#include <algorithm>
#include <cmath>

namespace spillway {
namespace {

// The prior, before anything was seen: the chance of a return falls with age as 0.3/age, with the
// weight of one return. With it, entries rank as by LRU.
constexpr double kPriorChance = 0.3;
constexpr double kPriorReturns = 1;
// How long a class uses the figures of the class above: for how often entries return, until it has
// seen ten returns; for how soon, until it has seen two in that bin.
constexpr double kLevelReturns = 10;
constexpr double kShapeReturns = 2;
// Rates are averaged over an octave on each side.
constexpr std::size_t kSmooth = 4;
constexpr double kLeastRate = 1e-12;

template <typename Bin>
double Waited(const Bin& bin, double now) {
  return bin.waited + std::max(0.0, bin.waiting * now - bin.entered);
}

std::array<double, kAgeBins> Smoothed(const std::array<double, kAgeBins>& rates) {
  std::array<double, kAgeBins> smooth{};
  for (std::size_t b = 0; b < kAgeBins; ++b) {
    const std::size_t from = b < kSmooth ? 0 : b - kSmooth;
    const std::size_t to = std::min(kAgeBins, b + kSmooth + 1);
    double sum = 0;
    for (std::size_t i = from; i < to; ++i) sum += rates[i];
    smooth[b] = sum / static_cast<double>(to - from);
  }
  return smooth;
}

}  // namespace

ReturnTable::ReturnTable() : classes_(1) {}

ReturnClass ReturnTable::Under(ReturnClass above, std::uint32_t key) {
  const std::uint64_t name = (std::uint64_t{above} << 32) | key;
  const auto found = by_key_.find(name);
  if (found != by_key_.end()) return found->second;
  if (classes_.size() >= kClassesMax) return above;
  const auto made = static_cast<ReturnClass>(classes_.size());
  classes_.emplace_back().above = above;
  by_key_.emplace(name, made);
  return made;
}

template <typename Each>
void ReturnTable::ForEachAbove(ReturnClass c, Each&& each) {
  for (;;) {
    each(classes_[c]);
    if (c == kAll) return;
    c = classes_[c].above;
  }
}

void ReturnTable::Enter(ReturnClass c, std::size_t bin, double weight, double at) {
  ForEachAbove(c, [&](Class& one) {
    one.bins[bin].waiting += weight;
    one.bins[bin].entered += weight * at;
    if (bin == 0) one.seen += weight;
  });
}

void ReturnTable::Leave(ReturnClass c, std::size_t bin, double weight, double entered, double now) {
  ForEachAbove(c, [&](Class& one) {
    one.bins[bin].waiting -= weight;
    one.bins[bin].entered -= weight * entered;
    one.bins[bin].waited += weight * (now - entered);
  });
}

void ReturnTable::Pass(ReturnClass c, std::size_t bin, std::size_t to, double weight,
                       double entered, double since) {
  const auto& edges = AgeEdges();
  ForEachAbove(c, [&](Class& one) {
    one.bins[bin].waiting -= weight;
    one.bins[bin].entered -= entered;
    one.bins[bin].waited += since + weight * edges[bin + 1] - entered;
    for (std::size_t b = bin + 1; b < to; ++b)
      one.bins[b].waited += weight * (edges[b + 1] - edges[b]);
    one.bins[to].waiting += weight;
    one.bins[to].entered += since + weight * edges[to];
  });
}

void ReturnTable::ReturnAfter(ReturnClass c, std::size_t bin, double weight, double entered,
                              double since, double gap_s) {
  const auto& edges = AgeEdges();
  const double at = since + gap_s;
  const std::size_t back = AgeBin(gap_s);
  ForEachAbove(c, [&](Class& one) {
    one.bins[bin].waiting -= weight;
    one.bins[bin].entered -= weight * entered;
    // Adds the time it really waited in `bin` and after, or subtracts time it did not wait.
    for (std::size_t b = bin; at > entered && b <= back; ++b) {
      const double from = std::max(entered, since + edges[b]);
      const double until = b == back ? at : since + edges[b + 1];
      one.bins[b].waited += weight * std::max(until - from, 0.0);
    }
    for (std::size_t b = back; at <= entered && b < bin; ++b) {
      const double from = std::max(at, since + edges[b]);
      const double until = std::min(entered, since + edges[b + 1]);
      one.bins[b].waited = std::max(one.bins[b].waited - weight * std::max(until - from, 0.0), 0.0);
    }
    one.bins[back].returns += weight;
    one.seen += weight;
  });
  all_returns_ += weight;
}

void ReturnTable::WholeWait(ReturnClass c, double weight, double gap_s) {
  const auto& edges = AgeEdges();
  const std::size_t back = AgeBin(gap_s);
  ForEachAbove(c, [&](Class& one) {
    for (std::size_t b = 0; b < back; ++b) one.bins[b].waited += weight * (edges[b + 1] - edges[b]);
    one.bins[back].waited += weight * (gap_s - edges[back]);
    one.bins[back].returns += weight;
    one.seen += 2 * weight;
  });
  all_returns_ += weight;
}

void ReturnTable::Doubt(ReturnClass c, double weight, double for_s) {
  const auto& edges = AgeEdges();
  Class& one = classes_[c];
  for (std::size_t b = 0; b < kAgeBins && edges[b] < for_s; ++b) {
    one.bins[b].waited += weight * (std::min(edges[b + 1], for_s) - edges[b]);
  }
}

// From the root down, so that each class can use the one above.
ReturnTable::Rates ReturnTable::RatesOf(ReturnClass c, double now) const {
  Path path{};
  std::size_t depth = 0;
  for (ReturnClass at = c; at != kAll && depth < path.size(); at = classes_[at].above) {
    path[depth++] = at;
  }
  Rates rates{};
  const Class& all = classes_[kAll];
  const auto& edges = AgeEdges();
  for (std::size_t b = 0; b < kAgeBins; ++b) {
    const double prior = kPriorChance / ((edges[b] + edges[b + 1]) / 2 + 1);
    const double waited = Waited(all.bins[b], now);
    rates[b] = (all.bins[b].returns + kPriorReturns) / (waited + kPriorReturns / prior);
  }
  while (depth > 0) {
    const Class& one = classes_[path[--depth]];
    std::array<double, kAgeBins> waited{};
    double seen = 0;
    double expected = 0;
    for (std::size_t b = 0; b < kAgeBins; ++b) {
      waited[b] = Waited(one.bins[b], now);
      seen += one.bins[b].returns;
      expected += waited[b] * rates[b];
    }
    const double level = (seen + kLevelReturns) / (expected + kLevelReturns);
    for (std::size_t b = 0; b < kAgeBins; ++b) {
      const double leant = std::max(rates[b] * level, kLeastRate);
      rates[b] = (one.bins[b].returns + kShapeReturns) / (waited[b] + kShapeReturns / leant);
    }
  }
  return rates;
}

// worth(age) = max over horizons H of P(return within H) / E[time held until the return or H], a
// Gittins index, with a constant rate in each bin.
void ReturnTable::RefreshWorth(Class* c, const Rates& rates) {
  const auto& edges = AgeEdges();
  std::array<double, kAgeBins> stays{};  // Probability of waiting through the whole bin.
  std::array<double, kAgeBins> held{};   // Expected time held in it.
  for (std::size_t b = 0; b < kAgeBins; ++b) {
    const double width = edges[b + 1] - edges[b];
    stays[b] = std::exp(-rates[b] * width);
    held[b] = (1 - stays[b]) / rates[b];
  }
  for (std::size_t from = 0; from < kAgeBins; ++from) {
    double waits = 1;
    double time = 0;
    double best = 0;
    for (std::size_t b = from; b < kAgeBins; ++b) {
      time += waits * held[b];
      waits *= stays[b];
      best = std::max(best, (1 - waits) / time);
    }
    c->worth[from] = static_cast<float>(best);
  }
}

double ReturnTable::Worth(ReturnClass c, double age_s, double now) {
  Class& one = classes_[c];
  const double more = std::max(std::min(one.seen_at_worth * 0.1, 64.0), one.seen_at_worth / 256);
  if (one.seen > one.seen_at_worth + more) {
    RefreshWorth(&one, Smoothed(RatesOf(c, now)));
    one.seen_at_worth = one.seen;
  }
  const std::size_t bin = AgeBin(age_s);
  if (bin + 1 >= kAgeBins) return one.worth[bin];
  const auto& edges = AgeEdges();
  const double part = (age_s - edges[bin]) / (edges[bin + 1] - edges[bin]);
  return one.worth[bin] * (1 - part) + one.worth[bin + 1] * part;
}

}  // namespace spillway
