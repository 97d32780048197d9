#include "demo/neighbours.h"

#include <poll.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "base/parse.h"

namespace spillway::demo {

namespace {

constexpr const char* kPatience = "2s";
// Between asking a process to end and making it.
constexpr int kGraceMs = 200;

}  // namespace

Neighbours::Neighbours(std::string program, std::vector<std::string> where, Duration lead)
    : program_(std::move(program)), where_(std::move(where)), lead_(lead) {}

Status Neighbours::Send(Bytes bytes, Bytes step, Duration hold, Duration now) {
  const auto ms = [](Duration time) {
    return fmt::format("{}ms", std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
  };
  std::vector<std::string> words = {program_, "squeeze", fmt::to_string(bytes)};
  words.insert(words.end(), where_.begin(), where_.end());
  words.insert(words.end(), {"--for", ms(std::max(hold - lead_, hold / 2)), "--step",
                             fmt::to_string(step), "--patience", kPatience, "--when"});
  if (lead_ > Duration::zero()) words.insert(words.end(), {"--after", ms(lead_)});
  Result<Child> child = Child::Start(words);
  if (!child) return child.error();
  Neighbour neighbour;
  neighbour.pid = child->pid();
  neighbour.bytes = bytes;
  neighbour.hold = hold;
  neighbour.came = now;
  all_.push_back(std::move(neighbour));
  children_.push_back(std::move(*child));
  return {};
}

bool Neighbours::Look(Duration now) {
  bool news = false;
  for (std::size_t i = 0; i < all_.size(); ++i) {
    news |= Hear(i);
    if (all_[i].state != Neighbour::State::kGone) news |= Reap(i, now);
  }
  return news;
}

bool Neighbours::Hear(std::size_t i) {
  return children_[i].Hear([&](std::string_view line) { NoteLine(line, &all_[i]); });
}

void NoteLine(std::string_view line, Neighbour* neighbour) {
  neighbour->said = line;
  constexpr std::string_view kBegan = "squeeze: began to take at ";
  if (line.starts_with(kBegan)) {
    std::int64_t seconds = 0;
    std::int64_t micros = 0;
    const char* const end = line.data() + line.size();
    const auto [dot, bad] = std::from_chars(line.data() + kBegan.size(), end, seconds);
    if (bad != std::errc() || dot == end || *dot != '.') return;
    const auto [stop, wrong] = std::from_chars(dot + 1, end, micros);
    if (wrong != std::errc() || stop != end || stop - dot != 7) return;
    neighbour->took_unix_us = seconds * 1'000'000 + micros;
    return;
  }
  constexpr std::string_view kHas = "squeeze: has ";
  constexpr std::string_view kAfter = " after ";
  if (!line.starts_with(kHas)) return;
  neighbour->state = Neighbour::State::kHolding;
  const bool all = !line.substr(kHas.size()).starts_with("only ");
  const std::size_t after = line.find(kAfter);
  if (!all || after == line.npos) return;
  if (const auto time = ParseDuration(line.substr(after + kAfter.size())))
    neighbour->waited = *time;
}

bool Neighbours::Reap(std::size_t i, Duration now) {
  const std::optional<int> status = children_[i].Ended();
  if (!status) return false;
  Hear(i);  // What it said before it left.
  all_[i].state = Neighbour::State::kGone;
  all_[i].status = *status;
  all_[i].left = now;
  return true;
}

void Neighbours::EndAll(Duration now) {
  for (const Child& child : children_) child.Ask();
  for (int waited = 0; waited < kGraceMs && present() > 0; waited += 5) {
    Look(now);
    if (present() > 0) ::poll(nullptr, 0, 5);
  }
  for (std::size_t i = 0; i < all_.size(); ++i) {
    if (all_[i].state == Neighbour::State::kGone) continue;
    children_[i].Kill();
    Reap(i, now);
  }
}

std::size_t Neighbours::present() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      all_, [](const Neighbour& n) { return n.state != Neighbour::State::kGone; }));
}

}  // namespace spillway::demo
