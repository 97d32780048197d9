// SPDX-License-Identifier: Apache-2.0
#include "monitor/source/driver.h"

#include <exception>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace spillway {

namespace {

// AMD's libraries are C++ inside, and some of their functions let exceptions
// out: treat those as errors.
template <typename Ask>
auto Guarded(const Ask& ask) -> decltype(ask()) {
  try {
    return ask();
  } catch (const std::exception& thrown) {
    return Error{Code::kUnavailable, fmt::format("the library threw: {}", thrown.what())};
  } catch (...) {
    return Error{Code::kUnavailable, "the library threw something"};
  }
}

// A source that keeps its device, and finds it again after it was gone.
class DriverSource : public PressureSource {
 public:
  DriverSource(const DriverKind& kind, Machine machine, Found found)
      : kind_(kind),
        machine_(std::move(machine)),
        found_(std::move(found)),
        name_(fmt::format("{}:{}", kind.name(), found_.device)) {}

  Status Start() {
    return Guarded([&] { return FindDevice(); });
  }

  Result<Reading> Read() override {
    bool gone = false;
    const Result<Reading> reading = Guarded([&]() -> Result<Reading> {
      if (device_ == nullptr) {
        if (const Status found = FindDevice(); !found) return found.error();
      }
      gone = true;  // If Ask throws, the device cannot be relied on.
      bool says_gone = false;
      Result<Reading> answer = device_->Ask(&says_gone);
      gone = says_gone;
      return answer;
    });
    if (gone) device_.reset();
    if (reading) return Checked(*reading, name_);
    return Error{reading.error().code, fmt::format("{}: {}", name_, reading.error().message)};
  }

  std::string_view name() const override { return name_; }

 private:
  Status FindDevice() {
    Result<std::unique_ptr<DriverDevice>> device = kind_.Find(machine_, found_);
    if (!device) return device.error();
    device_ = *std::move(device);
    return {};
  }

  const DriverKind& kind_;
  const Machine machine_;
  const Found found_;
  const std::string name_;

  // Owned by the thread that reads. Null: not found yet, or gone.
  std::unique_ptr<DriverDevice> device_;
};

}  // namespace

Sighting DriverKind::Look(const Machine& machine) const {
  Result<Sighting> sighting = Guarded([&] { return List(machine); });
  if (!sighting) return {.found = {}, .why_not = sighting.error().message};
  if (sighting->found.empty() && sighting->why_not.empty()) {
    sighting->why_not = "the library is there, but lists no devices";
  }
  return *std::move(sighting);
}

Result<std::shared_ptr<PressureSource>> DriverKind::Open(const Machine& machine,
                                                         std::string_view device) const {
  const Result<Found> chosen = Choose(Look(machine), name(), device);
  if (!chosen) return chosen.error();
  const auto source = std::make_shared<DriverSource>(*this, machine, *chosen);
  if (const Status started = source->Start(); !started) {
    return Error{started.error().code,
                 fmt::format("{}: {}", source->name(), started.error().message)};
  }
  return std::shared_ptr<PressureSource>(source);
}

void AddReason(std::string_view reason, Sighting* sighting) {
  if (!sighting->why_not.empty()) sighting->why_not += "; ";
  sighting->why_not += reason;
}

}  // namespace spillway
