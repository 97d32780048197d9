// SPDX-License-Identifier: Apache-2.0
#include "fakes/gpu/options.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>

namespace fakes {

namespace {

[[noreturn]] void Stop(const std::string& part) {
  std::fprintf(stderr, "fake GPU: not an option: %s\n", part.c_str());
  std::abort();
}

std::string Trim(const std::string& text) {
  const std::size_t from = text.find_first_not_of(" \t");
  if (from == std::string::npos) return {};
  return text.substr(from, text.find_last_not_of(" \t") - from + 1);
}

Options::Vmm VmmNamed(const std::string& name) {
  if (name == "good") return Options::Vmm::kGood;
  if (name == "keeps") return Options::Vmm::kKeeps;
  if (name == "leaks") return Options::Vmm::kLeaks;
  if (name == "forgets") return Options::Vmm::kForgets;
  if (name == "refuses") return Options::Vmm::kRefuses;
  Stop("vmm " + name);
}

void Take(const std::string& part, Options* options) {
  const std::size_t space = part.find(' ');
  const std::string name = part.substr(0, space);
  const std::string value = space == std::string::npos ? "" : Trim(part.substr(space));
  const std::uint64_t number = std::strtoull(value.c_str(), nullptr, 0);
  if (value.empty()) Stop(part);
  if (name == "cards")
    options->cards = static_cast<int>(number);
  else if (name == "total")
    options->total = number;
  else if (name == "granularity")
    options->granularity = number;
  else if (name == "name")
    options->name = value;
  else if (name == "uuid")
    options->uuid = value;
  else if (name == "pci")
    options->pci = value;
  else if (name == "version")
    options->version = static_cast<int>(number);
  else if (name == "seed")
    options->seed = number;
  else if (name == "stale")
    options->stale = number != 0;
  else if (name == "thread")
    options->thread = number != 0;
  else if (name == "strict")
    options->strict = number != 0;
  else if (name == "foreign")
    options->foreign = number;
  else if (name == "backing")
    options->backing = value;
  else if (name == "together")
    options->together = value;
  else if (name == "vmm")
    options->vmm = VmmNamed(value);
  else
    Stop(part);
}

}  // namespace

Options ParseOptions(const std::string& text) {
  Options options;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(";\n", at), text.size());
    const std::string part = Trim(text.substr(at, end - at));
    if (!part.empty()) Take(part, &options);
    at = end + 1;
  }
  // Access to less than a page of the host can't be forbidden.
  if (options.granularity < 4096 || !std::has_single_bit(options.granularity)) Stop("granularity");
  if (options.cards < 0 || options.cards > 8) Stop("cards");
  return options;
}

}  // namespace fakes
