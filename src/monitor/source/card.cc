// SPDX-License-Identifier: Apache-2.0
// The kind "card": virtual cards that processes of this machine share by name.
#include "device/cpu/card.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/run_dir.h"
#include "monitor/source/kind.h"

namespace spillway {
namespace {

class NamedCard final : public PressureSource {
 public:
  explicit NamedCard(std::unique_ptr<Card> card)
      : card_(std::move(card)), name_("card:" + card_->name()) {}

  Result<Reading> Read() override { return card_->Read(); }
  std::string_view name() const override { return name_; }

 private:
  const std::unique_ptr<Card> card_;
  const std::string name_;
};

class CardSources final : public SourceKind {
 public:
  std::string_view name() const override { return "card"; }
  std::string_view what() const override { return "a virtual card's ledger"; }

  Sighting Look(const Machine&) const override {
    const Result<std::string> run_dir = RunDir();
    if (!run_dir) return {.why_not = run_dir.error().message};
    Sighting sighting;
    std::error_code error;
    for (std::filesystem::directory_iterator at(*run_dir, error), end; !error && at != end;
         at.increment(error)) {
      constexpr std::string_view kPrefix = "card-";
      const std::string file = at->path().filename().string();
      std::error_code ignored;  // Deleted just now: no card.
      if (!file.starts_with(kPrefix) || file.size() == kPrefix.size() ||
          !std::filesystem::is_regular_file(at->symlink_status(ignored))) {
        continue;
      }
      sighting.found.push_back(
          {.device = file.substr(kPrefix.size()), .uuid = {}, .label = "virtual card"});
    }
    std::ranges::sort(sighting.found, {}, &Found::device);
    if (error) {
      sighting.why_not = fmt::format("{}: {}", *run_dir, error.message());
    } else if (sighting.found.empty()) {
      sighting.why_not = fmt::format("no virtual card is shared here: {} has none", *run_dir);
    }
    return sighting;
  }

  Result<std::shared_ptr<PressureSource>> Open(const Machine& machine,
                                               std::string_view device) const override {
    // Only existing cards: opening any other name would create a card.
    const Result<Found> found = Choose(Look(machine), name(), device);
    if (!found) return found.error();
    Result<std::unique_ptr<Card>> card = Card::Open({.name = found->device});
    if (!card) return card.error();
    return std::shared_ptr<PressureSource>(std::make_shared<NamedCard>(std::move(*card)));
  }
};

}  // namespace

const SourceKind& CardKind() {
  static const CardSources kKind;
  return kKind;
}

}  // namespace spillway
