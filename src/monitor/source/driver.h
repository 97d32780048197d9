// What the kinds that ask a vendor's library have in common. Such a kind can do
// two things: list the devices, and find one of them. Its sources keep the
// device they found until the library says that it is gone, and find it again
// at the next reading, by PCI id or UUID, since it may be back elsewhere.
#pragma once

#include <memory>
#include <string_view>

#include "monitor/source/kind.h"

namespace spillway {

// A device that was found, and whatever must be held to ask it. Used by one
// thread at a time.
class DriverDevice {
 public:
  virtual ~DriverDevice() = default;
  // Fresh figures, as the library gives them. Sets `*gone` when what this object
  // holds (the handle, the context, the library's state) is of no use any more.
  virtual Result<Reading> Ask(bool* gone) = 0;
};

class DriverKind : public SourceKind {
 public:
  bool for_gpus() const override { return true; }
  Sighting Look(const Machine& machine) const final;
  Result<std::shared_ptr<PressureSource>> Open(const Machine& machine,
                                               std::string_view device) const final;

  // These two may throw, as the libraries under them do.
  virtual Result<Sighting> List(const Machine& machine) const = 0;
  virtual Result<std::unique_ptr<DriverDevice>> Find(const Machine& machine,
                                                     const Found& wanted) const = 0;
};

// Adds a reason to those why not everything was found.
void AddReason(std::string_view reason, Sighting* sighting);

}  // namespace spillway
