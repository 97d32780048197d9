// SPDX-License-Identifier: Apache-2.0
// The kind "amd-sysfs": AMD cards by the files of the kernel's driver in /sys.
// Needs no library and no initialisation: a reading costs two microseconds.
//
// A card is identified by its PCI id; its number (card0) changes with each boot
// and after a reset of the device. Several cards can be partitions of one package,
// each of which shows the memory of the whole package, so they are never summed.
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/printable.h"
#include "base/small_file.h"
#include "monitor/source/kind.h"

namespace spillway {
namespace {

constexpr std::string_view kName = "amd-sysfs";
constexpr std::string_view kTotal = "mem_info_vram_total";
constexpr std::string_view kUsed = "mem_info_vram_used";

struct AmdCard {
  std::string directory;  // SYS/class/drm/card3/device
  std::string pci;
  Scope scope = Scope::kCard;
};

// "card12"; a card's connectors have names like "card12-HDMI-A-1".
bool IsCard(std::string_view entry) {
  constexpr std::string_view kPrefix = "card";
  if (!entry.starts_with(kPrefix) || entry.size() == kPrefix.size()) return false;
  return std::ranges::all_of(entry.substr(kPrefix.size()),
                             [](unsigned char c) { return std::isdigit(c) != 0; });
}

// Returns the text of one of a device's files, without the line end; empty:
// missing or not readable.
std::string TextOf(const std::string& directory, std::string_view file) {
  const auto text = ReadSmallFile(fmt::format("{}/{}", directory, file));
  if (!text || !*text) return {};
  std::string line = **text;
  while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back())) != 0) {
    line.pop_back();
  }
  return line;
}

// Returns the value of a line such as "DRIVER=amdgpu" in a uevent file.
std::string_view ValueOf(std::string_view uevent, std::string_view key) {
  while (!uevent.empty()) {
    const std::size_t end = std::min(uevent.find('\n'), uevent.size());
    const std::string_view line = uevent.substr(0, end);
    if (line.starts_with(key) && line.substr(key.size()).starts_with('=')) {
      return line.substr(key.size() + 1);
    }
    uevent.remove_prefix(std::min(end + 1, uevent.size()));
  }
  return {};
}

Result<Bytes> BytesIn(const SmallFile& file) {
  const Result<std::string> text = file.Read();
  if (!text) return text.error();
  Bytes bytes = 0;
  const char* const last = text->data() + text->size();
  const auto [end, error] = std::from_chars(text->data(), last, bytes);
  if (error == std::errc() && (end == last || *end == '\n')) return bytes;
  return Error{Code::kUnavailable, fmt::format("{}: no number of bytes: '{}'",
                                               Printable(file.path()), Printable(*text))};
}

// The PCI id without the function: partitions of one package differ only in that.
std::string_view PackageOf(const AmdCard& card) {
  return std::string_view(card.pci).substr(0, card.pci.rfind('.'));
}

void MarkPartitions(std::vector<AmdCard>* cards) {
  for (AmdCard& card : *cards) {
    const auto same = [&](const AmdCard& other) { return PackageOf(other) == PackageOf(card); };
    const bool shares = std::ranges::count_if(*cards, same) > 1;
    // Only the first partition of a package shows its memory.
    if (shares || TextOf(card.directory, kTotal) == "0") card.scope = Scope::kPartition;
  }
}

struct Scan {
  std::vector<AmdCard> cards;  // By PCI id.
  std::string why_not;         // The reason if something could not be read.
};

// Lists the AMD cards under /sys, in the order of their PCI ids.
Scan ScanCards(const Machine& machine) {
  const std::string drm = machine.sys + "/class/drm";
  Scan scan;
  std::error_code error;
  for (std::filesystem::directory_iterator at(drm, error), end; !error && at != end;
       at.increment(error)) {
    if (!IsCard(at->path().filename().string())) continue;
    AmdCard card;
    card.directory = (at->path() / "device").string();
    const std::string uevent = TextOf(card.directory, "uevent");
    if (ValueOf(uevent, "DRIVER") != "amdgpu") continue;
    card.pci = CanonicalPci(ValueOf(uevent, "PCI_SLOT_NAME"));
    if (card.pci.empty()) {
      scan.why_not = fmt::format("{}/uevent names no PCI slot", Printable(card.directory));
      continue;
    }
    scan.cards.push_back(std::move(card));
  }
  std::ranges::sort(scan.cards, {}, &AmdCard::pci);
  MarkPartitions(&scan.cards);
  if (error) {
    scan.why_not = fmt::format("{}: {}", Printable(drm), error.message());
  } else if (scan.cards.empty() && scan.why_not.empty()) {
    scan.why_not = fmt::format("{} has none with the amdgpu driver", Printable(drm));
  }
  if (scan.cards.empty()) scan.why_not = "no AMD card: " + scan.why_not;
  return scan;
}

std::string LabelOf(const AmdCard& card) {
  const std::string product = TextOf(card.directory, "product_name");
  if (!product.empty()) return Printable(product);
  const std::string id = TextOf(card.directory, "device");
  return id.empty() ? "AMD card" : fmt::format("AMD card {}", Printable(id));
}

// Keeps a card's two files open between readings.
class AmdSysfsSource final : public PressureSource {
 public:
  AmdSysfsSource(Machine machine, std::string pci)
      : machine_(std::move(machine)),
        pci_(std::move(pci)),
        name_(fmt::format("{}:{}", kName, pci_)) {}

  Result<Reading> Read() override {
    if (!files_) {
      if (const Status opened = Reopen(); !opened) return opened.error();
    }
    Result<Reading> reading = ReadOpen();
    // After any failure the next reading looks for the card again.
    if (!reading) files_.reset();
    return reading;
  }
  std::string_view name() const override { return name_; }

 private:
  struct Files {
    SmallFile total;
    SmallFile used;
    Scope scope;
  };

  Error Failed(std::string_view why) const {
    return Error{Code::kUnavailable, fmt::format("{}: {}", name_, why)};
  }

  Status Reopen() {
    const Scan scan = ScanCards(machine_);
    const auto card = std::ranges::find(scan.cards, pci_, &AmdCard::pci);
    if (card == scan.cards.end()) {
      return Failed(scan.why_not.empty() ? "the card is not there" : scan.why_not);
    }
    std::array<std::optional<SmallFile>, 2> open;
    for (const bool is_used : {false, true}) {
      const std::string file = fmt::format("{}/{}", card->directory, is_used ? kUsed : kTotal);
      Result<std::optional<SmallFile>> opened = SmallFile::Open(file);
      if (!opened) return Failed(opened.error().message);
      if (!*opened) return Failed(fmt::format("{} is not there", Printable(file)));
      open[is_used] = std::move(*opened);
    }
    files_.emplace(Files{std::move(*open[0]), std::move(*open[1]), card->scope});
    return {};
  }

  Result<Reading> ReadOpen() const {
    const Result<Bytes> total = BytesIn(files_->total);
    if (!total) return Failed(total.error().message);
    const Result<Bytes> used = BytesIn(files_->used);
    if (!used) return Failed(used.error().message);
    if (*total == 0) {
      return Failed(
          fmt::format("{} is 0: a partition whose package counts its memory at another, "
                      "or a card without any",
                      kTotal));
    }
    if (*used > *total) {
      return Failed(fmt::format("more used than there is (total {}, used {})", *total, *used));
    }
    return Checked({*total, *total - *used, {}, files_->scope}, name_);
  }

  const Machine machine_;
  const std::string pci_;
  const std::string name_;
  std::optional<Files> files_;  // Empty: the card must be found first.
};

class AmdSysfsSources final : public SourceKind {
 public:
  bool for_gpus() const override { return true; }
  std::string_view name() const override { return kName; }
  std::string_view what() const override { return "AMD's driver in /sys"; }

  Sighting Look(const Machine& machine) const override {
    const Scan scan = ScanCards(machine);
    Sighting sighting;
    sighting.why_not = scan.why_not;
    for (const AmdCard& card : scan.cards) {
      sighting.found.push_back({card.pci, {}, LabelOf(card), card.scope});
    }
    return sighting;
  }

  Result<std::shared_ptr<PressureSource>> Open(const Machine& machine,
                                               std::string_view device) const override {
    const Result<Found> found = Choose(Look(machine), kName, device);
    if (!found) return found.error();
    return std::shared_ptr<PressureSource>(new AmdSysfsSource(machine, found->device));
  }
};

}  // namespace

const SourceKind& AmdSysfsKind() {
  static const AmdSysfsSources kKind;
  return kKind;
}

}  // namespace spillway
