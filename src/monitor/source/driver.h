// SPDX-License-Identifier: Apache-2.0
// The common part of the kinds that use a vendor's library. Such a kind can
// list the devices and find one of them. Its sources keep the device until the
// library reports that it is gone, and find it again at the next reading, by
// PCI id or UUID, since it may come back elsewhere.
#pragma once

#include <memory>
#include <string_view>

#include "monitor/source/kind.h"

namespace spillway {

// A device that was found, and everything that must be held to read it. Used by
// one thread at a time.
class DriverDevice {
 public:
  virtual ~DriverDevice() = default;
  // A new reading from the library. Sets `*gone` if the state in this object
  // (the handle, the context, the library's state) can no longer be used.
  virtual Result<Reading> Ask(bool* gone) = 0;
};

class DriverKind : public SourceKind {
 public:
  bool for_gpus() const override { return true; }
  Sighting Look(const Machine& machine) const final;
  Result<std::shared_ptr<PressureSource>> Open(const Machine& machine,
                                               std::string_view device) const final;

  // These two may throw, like the libraries below them.
  virtual Result<Sighting> List(const Machine& machine) const = 0;
  virtual Result<std::unique_ptr<DriverDevice>> Find(const Machine& machine,
                                                     const Found& wanted) const = 0;
};

// Adds a reason why not all devices were found.
void AddReason(std::string_view reason, Sighting* sighting);

}  // namespace spillway
