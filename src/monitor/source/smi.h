// SPDX-License-Identifier: Apache-2.0
// The common part of AMD's two management libraries: both report a total and
// how much of it is used, and partitions of one package share its memory.
//
// `Smi` is a struct of the library's functions, for LoadAndBegin, with
//   Id                       a device's identifier inside the library
//   kTotalCall, kUsageCall   the names of memory_total and memory_usage
//   KeepsState(code)         whether library and Id are still usable after it
//   Failed(call, code)       the Error, by SmiError
//   Devices(), PciOf(id), Describe(id, &found)
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "monitor/source/driver.h"
#include "monitor/source/session.h"

namespace spillway {

// "0000:1b:00.0" for a domain and 16 low bits, whose layout is the same in both
// libraries: bus in bits 8 to 15, device in 3 to 7, function in 0 to 2.
std::string SmiPci(std::uint64_t domain, std::uint64_t low_bits);

// The error of a failed call, with the library's text for that code if there is one.
using SmiWords = int(int code, const char** words);
Error SmiError(SmiWords* words_of, std::string_view call, int code);

// Unavailable if `used` is more than `total`.
Result<Reading> SmiReading(Bytes total, Bytes used, Scope scope);

// Devices with one bus and device number are partitions of a package. Those with
// the same PCI id become one, since each reports the values of the whole package.
void MarkPartitions(std::vector<Found>* found);

// AMD's libraries write to standard error what they do not find, even without
// an AMD card; their codes say the same, so that output is suppressed. Output
// of an initialisation that takes longer than this is shown again.
constexpr Duration kInitTalksMax = std::chrono::seconds(2);

template <typename Smi>
class SmiDevice : public DriverDevice {
 public:
  SmiDevice(Smi smi, typename Smi::Id id, Scope scope)
      : smi_(std::move(smi)), id_(id), scope_(scope) {}

  Result<Reading> Ask(bool* gone) override {
    constexpr int kVram = 0;  // The libraries' number for VRAM.
    // Zero before the calls: the libraries read these variables.
    std::uint64_t total = 0;
    std::uint64_t used = 0;
    const char* call = Smi::kTotalCall;
    int code = smi_.memory_total(id_, kVram, &total);
    if (code == 0) {
      call = Smi::kUsageCall;
      code = smi_.memory_usage(id_, kVram, &used);
    }
    if (code == 0) return SmiReading(total, used, scope_);
    *gone = !Smi::KeepsState(code);
    return smi_.Failed(call, code);
  }

 private:
  const Smi smi_;
  const typename Smi::Id id_;  // Valid as long as the session.
  const Scope scope_;
};

template <typename Smi>
class SmiKind : public DriverKind {
 public:
  using Names = std::vector<std::string> Machine::*;
  SmiKind(std::string_view name, std::string_view what, Names names)
      : name_(name), what_(what), names_(names) {}

  std::string_view name() const override { return name_; }
  std::string_view what() const override { return what_; }

  Result<Sighting> List(const Machine& machine) const override {
    const Result<Smi> smi = LoadAndBegin<Smi>(machine.*names_);
    if (!smi) return smi.error();
    const Result<std::vector<typename Smi::Id>> ids = smi->Devices();
    if (!ids) return ids.error();
    Sighting sighting;
    for (std::size_t at = 0; at < ids->size(); ++at) {
      const typename Smi::Id id = (*ids)[at];
      const Result<std::string> pci = smi->PciOf(id);
      if (!pci) {
        AddReason(fmt::format("device {}: {}", at, pci.error().message), &sighting);
        continue;
      }
      Found found{.device = *pci, .uuid = {}, .label = "AMD GPU", .scope = Scope::kCard};
      smi->Describe(id, &found);
      sighting.found.push_back(std::move(found));
    }
    MarkPartitions(&sighting.found);
    return sighting;
  }

  Result<std::unique_ptr<DriverDevice>> Find(const Machine& machine,
                                             const Found& wanted) const override {
    Result<Smi> smi = LoadAndBegin<Smi>(machine.*names_);
    if (!smi) return smi.error();
    const Result<std::vector<typename Smi::Id>> ids = smi->Devices();
    if (!ids) return ids.error();
    std::string why = "the library does not list it any more";
    for (const typename Smi::Id id : *ids) {
      const Result<std::string> pci = smi->PciOf(id);
      if (!pci) why = pci.error().message;
      if (!pci || *pci != wanted.device) continue;
      return std::unique_ptr<DriverDevice>(
          std::make_unique<SmiDevice<Smi>>(*std::move(smi), id, wanted.scope));
    }
    return Error{Code::kUnavailable, why};
  }

 private:
  const std::string_view name_;
  const std::string_view what_;
  const Names names_;
};

}  // namespace spillway
