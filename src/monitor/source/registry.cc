// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cctype>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/nearest.h"
#include "base/printable.h"
#include "monitor/source/kind.h"

namespace spillway {

namespace {
// For the functions of <cctype>, which do not accept negative values.
int Byte(char letter) { return static_cast<unsigned char>(letter); }
}  // namespace

std::span<const SourceKind* const> SourceKinds() {
  static const std::array kKinds = {&NvmlKind(),    &CudaKind(), &AmdSysfsKind(), &AmdSmiKind(),
                                    &RocmSmiKind(), &CardKind(), &HostKind(),     &DiskKind(),
                                    &FileKind(),    &FixedKind()};
  return kKinds;
}

Result<std::shared_ptr<PressureSource>> OpenSource(std::string_view spec, const Machine& machine,
                                                   std::span<const std::string_view> besides) {
  const std::size_t colon = spec.find(':');
  const std::string_view name = spec.substr(0, colon);
  const std::string_view device =
      colon == std::string_view::npos ? std::string_view() : spec.substr(colon + 1);
  std::vector<std::string_view> known;
  for (const SourceKind* kind : SourceKinds()) {
    if (kind->name() == name) return kind->Open(machine, device);
    known.push_back(kind->name());
  }
  known.insert(known.end(), besides.begin(), besides.end());
  return Error{Code::kInvalidArgument,
               fmt::format("'{}' is not a kind of source; known: {}{}", Printable(name),
                           fmt::join(known, ", "), DidYouMean(name, known))};
}

std::string CanonicalPci(std::string_view text) {
  // [domain:]bus:device.function, in hexadecimal digits.
  std::array<unsigned, 4> parts{};
  std::size_t at = 0;
  const auto number = [&](unsigned* into, std::size_t most) {
    std::size_t digits = 0;
    for (*into = 0; at < text.size() && digits < most && std::isxdigit(Byte(text[at])) != 0; ++at) {
      const int digit = std::tolower(Byte(text[at]));
      *into = *into * 16 + static_cast<unsigned>(digit <= '9' ? digit - '0' : digit - 'a' + 10);
      ++digits;
    }
    return digits > 0;
  };
  const auto mark = [&](char wanted) {
    if (at == text.size() || text[at] != wanted) return false;
    ++at;
    return true;
  };
  if (std::count(text.begin(), text.end(), ':') == 2) {
    if (!number(&parts[0], 8) || !mark(':')) return {};
  }
  if (!number(&parts[1], 2) || !mark(':') || !number(&parts[2], 2) || !mark('.') ||
      !number(&parts[3], 1) || at != text.size()) {
    return {};
  }
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", parts[0], parts[1], parts[2], parts[3]);
}

Result<Found> Choose(const Sighting& sighting, std::string_view kind, std::string_view device) {
  const std::vector<Found>& found = sighting.found;
  if (found.empty()) {
    return Error{Code::kUnavailable, fmt::format("{}: {}", kind, sighting.why_not)};
  }
  if (device.empty() && found.size() == 1) return found.front();
  const std::string pci = CanonicalPci(device);
  std::vector<std::string> there;
  for (const Found& one : found) {
    if (!device.empty() &&
        (one.device == device || one.uuid == device || (!pci.empty() && one.device == pci))) {
      return one;
    }
    there.push_back(one.uuid.empty() || one.uuid == one.device
                        ? one.device
                        : fmt::format("{} ({})", one.device, one.uuid));
  }
  // A device that could not be read may be the one that is named.
  const std::string besides =
      sighting.why_not.empty() ? std::string() : fmt::format("; besides: {}", sighting.why_not);
  return Error{Code::kUnavailable,
               device.empty() ? fmt::format("{}: there are {} devices; name one: {}{}", kind,
                                            found.size(), fmt::join(there, ", "), besides)
                              : fmt::format("{}: device '{}' is not there; there are: {}{}", kind,
                                            Printable(device), fmt::join(there, ", "), besides)};
}

Result<Reading> Checked(const Reading& reading, std::string_view source) {
  constexpr Bytes kAllOnes = std::numeric_limits<Bytes>::max();
  const auto absurd = [&](std::string_view what) {
    return Error{Code::kUnavailable, fmt::format("{}: {} (total {}, free {})", source, what,
                                                 reading.total, reading.free)};
  };
  if (reading.total == 0) return absurd("a total of 0");
  if (reading.total == kAllOnes || reading.free == kAllOnes) return absurd("a figure of all ones");
  const Bytes reserved = reading.reserved.value_or(0);
  if (reserved >= reading.total) return absurd("more reserved than there is");
  if (reading.free > reading.total) return absurd("more free than there is");
  return reading;
}

}  // namespace spillway
