// SPDX-License-Identifier: Apache-2.0
// Kinds of pressure sources. Each lists the devices of its kind on this machine
// and opens a source for one of them. Each kind has a file of its own in this
// folder and an entry in registry.cc.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "monitor/machine.h"
#include "spillway/pressure.h"
#include "spillway/result.h"

namespace spillway {

// A device that a source of some kind can read.
struct Found {
  // Its name in a source's specification: a PCI id "0000:1b:00.0", a UUID
  // ("MIG-..."), a name; empty if there is only one device.
  std::string device;
  std::string uuid;   // Empty: unknown.
  std::string label;  // For people: "NVIDIA H200", "cgroup /user.slice".
  Scope scope = Scope::kCard;
};

// The result of looking for devices of one kind.
struct Sighting {
  std::vector<Found> found = {};
  std::string why_not = {};  // Why nothing was found, or not all could be read.
  // The kind cannot list devices: its user names one, such as a path.
  bool named_by_user = false;
};

// Stateless: one object per kind for the life of the process. Any thread.
class SourceKind {
 public:
  virtual ~SourceKind() = default;
  virtual std::string_view name() const = 0;  // "nvml"
  virtual std::string_view what() const = 0;  // For help: "NVIDIA's management library"
  // Whether a cache chooses this kind for a GPU by default: it reads GPUs
  // without taking any of their memory.
  virtual bool for_gpus() const { return false; }
  // May be slow or hang, like drivers: call it on a thread that can be abandoned.
  virtual Sighting Look(const Machine& machine) const = 0;
  // `device` as in Found; empty: the only one, or an error if there are
  // several. The message of Unavailable says what is missing and what exists.
  virtual Result<std::shared_ptr<PressureSource>> Open(const Machine& machine,
                                                       std::string_view device) const = 0;
};

// In order of preference for one device.
std::span<const SourceKind* const> SourceKinds();

// Opens "nvml", "nvml:0000:1b:00.0", "nvml:GPU-...", "card:demo", "host",
// "disk:/var/cache", "file:/run/pressure", "fixed:0.5". InvalidArgument:
// unknown kind; Unavailable: no such device. `besides`: other words that the
// caller accepts, for the error message.
Result<std::shared_ptr<PressureSource>> OpenSource(std::string_view spec, const Machine& machine,
                                                   std::span<const std::string_view> besides = {});

// Converts a PCI id to the spelling used here, "0000:1b:00.0"; empty: not a PCI id.
std::string CanonicalPci(std::string_view text);

// Returns the device of `found` that `device` names, by PCI id or UUID; if
// `device` is empty, the only one.
Result<Found> Choose(const Sighting& sighting, std::string_view kind, std::string_view device);

// Checks a driver's values: a total of 0, more free than total, or all bits set
// is an Error that names the source.
Result<Reading> Checked(const Reading& reading, std::string_view source);

// The kinds, each in a file of its own.
const SourceKind& NvmlKind();
const SourceKind& CudaKind();
const SourceKind& AmdSysfsKind();
const SourceKind& AmdSmiKind();
const SourceKind& RocmSmiKind();
const SourceKind& CardKind();
const SourceKind& HostKind();
const SourceKind& DiskKind();
const SourceKind& FileKind();
const SourceKind& FixedKind();

}  // namespace spillway
