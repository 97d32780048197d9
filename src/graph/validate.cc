// SPDX-License-Identifier: Apache-2.0
#include "graph/validate.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/printable.h"

namespace spillway {
namespace {

using What = Finding::What;

class Validator {
 public:
  Validator(const RunGraph& graph, std::span<const std::string* const> names)
      : graph_(graph), names_(names) {}

  std::vector<Finding> All() {
    Cycles();
    Reach();
    for (StepIndex at = 0; at < graph_.steps().size(); ++at) EdgesInto(at);
    Choices();
    for (const RunEdge& edge : graph_.edges()) {
      if (edge.kind == EdgeKind::kBack && !edge.inside) {
        Add(What::kClosesNoLoop, {edge.from, edge.to},
            fmt::format("the back edge from '{}' closes no loop: '{}' does not lead to it",
                        Shown(edge.from), Shown(edge.to)));
      }
    }
    return std::move(found_);
  }

 private:
  std::string Shown(StepIndex at) const { return Printable(*names_[at]); }

  // The first few steps, by name.
  std::string Shown(std::span<const StepIndex> steps) const {
    constexpr std::size_t kShown = 8;
    std::vector<std::string> names;
    for (const StepIndex at : steps.first(std::min(kShown, steps.size()))) {
      names.push_back("'" + Shown(at) + "'");
    }
    const std::string more =
        steps.size() > kShown ? fmt::format(" and {} more", steps.size() - kShown) : "";
    return fmt::format("{}{}", fmt::join(names, ", "), more);
  }

  void Add(What what, const std::vector<StepIndex>& steps, std::string message) {
    Finding finding{what, {}, std::move(message)};
    for (const StepIndex at : steps) finding.steps.push_back(*names_[at]);
    found_.push_back(std::move(finding));
  }

  void Cycles() {
    std::map<std::uint32_t, std::vector<StepIndex>> cycles;
    for (StepIndex at = 0; at < graph_.steps().size(); ++at) {
      if (const auto cycle = graph_.cycle(at)) cycles[*cycle].push_back(at);
    }
    for (const auto& [number, steps] : cycles) {
      const bool broken = std::ranges::any_of(
          steps, [this](StepIndex at) { return graph_.steps()[at].join != Join::kAll; });
      Add(What::kForwardCycle, steps,
          fmt::format(
              "forward edges go round in a circle through {}: {}; a back edge closes a loop",
              Shown(steps),
              broken ? "it goes on only if a join that is not 'all' is entered from outside"
                     : "none of them can ever start"));
    }
  }

  // Marks the steps that could start if all went well, ignoring states and choices taken.
  void Reach() {
    const std::size_t total = graph_.steps().size();
    std::vector<std::uint32_t> missing(total);
    std::vector<StepIndex> todo;
    for (StepIndex at = 0; at < total; ++at) {
      const RunStep& step = graph_.steps()[at];
      const std::uint32_t in = ForwardEdgesInto(at);
      missing[at] = in == 0 || step.join == Join::kAll ? in : step.join == Join::kAny ? 1 : step.k;
      if (missing[at] == 0) todo.push_back(at);
    }
    for (std::size_t next = 0; next < todo.size(); ++next) {
      for (EdgeIndex e = graph_.steps()[todo[next]].first_out; e != kNoIndex;
           e = graph_.edges()[e].next_out) {
        const RunEdge& edge = graph_.edges()[e];
        if (edge.kind != EdgeKind::kForward || missing[edge.to] == 0) continue;
        --missing[edge.to];
        if (missing[edge.to] == 0) todo.push_back(edge.to);
      }
    }
    std::vector<StepIndex> never;
    for (StepIndex at = 0; at < total; ++at) {
      if (missing[at] > 0) never.push_back(at);
    }
    if (never.empty()) return;
    Add(What::kNeverStarts, never, fmt::format("no path leads to {}", Shown(never)));
  }

  std::uint32_t ForwardEdgesInto(StepIndex at) const {
    std::uint32_t count = 0;
    for (EdgeIndex e = graph_.steps()[at].first_in; e != kNoIndex; e = graph_.edges()[e].next_in) {
      if (graph_.edges()[e].kind == EdgeKind::kForward) ++count;
    }
    return count;
  }

  void EdgesInto(StepIndex at) {
    const RunStep& step = graph_.steps()[at];
    const std::uint32_t in = ForwardEdgesInto(at);
    if (step.join != Join::kKOf || in == 0 || in >= step.k) return;
    Add(What::kTooFewForK, {at},
        fmt::format("'{}' needs {} of the steps before it, but there are only {}", Shown(at),
                    step.k, in));
  }

  void Choices() {
    struct Sum {
      double given = 0;
      bool open = false;
    };
    std::map<std::pair<StepIndex, std::uint32_t>, Sum> sums;
    for (const RunEdge& edge : graph_.edges()) {
      if (edge.choice == kNoIndex) continue;
      Sum& sum = sums[{edge.from, edge.choice}];
      if (edge.prob_given) sum.given += edge.prob;
      sum.open = sum.open || !edge.prob_given;
    }
    constexpr double kSlack = 1e-6;
    for (const auto& [choice, sum] : sums) {
      const bool right = sum.open ? sum.given < 1 : std::abs(sum.given - 1) <= kSlack;
      if (right) continue;
      Add(What::kChoiceSum, {choice.first},
          fmt::format("probabilities of a choice of '{}' add up to {:.6g}; it should be 1",
                      Shown(choice.first), sum.given));
    }
  }

  const RunGraph& graph_;
  const std::span<const std::string* const> names_;
  std::vector<Finding> found_;
};

}  // namespace

std::vector<Finding> ValidateRun(const RunGraph& graph, std::span<const std::string* const> names) {
  return Validator(graph, names).All();
}

}  // namespace spillway
