// SPDX-License-Identifier: Apache-2.0
#include "cli/cards.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.h"
#include "base/nearest.h"
#include "base/printable.h"
#include "base/run_dir.h"
#include "device/cpu/card_file.h"
#include "device/cpu/ledger.h"

namespace spillway {
namespace {

constexpr std::string_view kPrefix = "card-";
constexpr Duration kLockWait = std::chrono::milliseconds(200);

bool IsInUse(const std::string& path) {
  const Result<std::unique_ptr<CardFile>> file = CardFile::Open(path, kLockWait);
  if (!file) return false;
  LedgerLock* const lock = file->get();
  if (!lock->Lock()) return true;  // Some process holds it.
  bool used = false;
  for (int slot = 0; slot < kLedgerSlots && !used; ++slot) used = (*file)->Alive(slot);
  lock->Unlock();
  return used;
}

}  // namespace

std::vector<std::string> CardsInUse() {
  std::vector<std::string> names;
  const Result<std::string> dir = RunDir();
  if (!dir) return names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(*dir, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kPrefix) && IsInUse(entry.path().string())) {
      names.push_back(name.substr(kPrefix.size()));
    }
  }
  std::ranges::sort(names);
  return names;
}

Status CheckCardInUse(std::string_view name) {
  const std::vector<std::string> cards = CardsInUse();
  if (std::ranges::find(cards, name) != cards.end()) return {};
  if (cards.empty()) {
    return Bad(fmt::format(
        "no process uses a card \"{}\", or any other. The card of a plain spillwayd is its own: "
        "started with --card default it is shared, and can be squeezed. --total SIZE makes a new "
        "card",
        Printable(name)));
  }
  const std::vector<std::string_view> known(cards.begin(), cards.end());
  return Bad(
      fmt::format("no process uses a card \"{}\"{}; in use: {}. --total SIZE makes a new one",
                  Printable(name), DidYouMean(name, known), fmt::join(cards, ", ")));
}

}  // namespace spillway
