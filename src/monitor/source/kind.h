// Kinds of pressure sources: each finds what this machine offers of its kind
// and opens a source for one device. One file each in this folder, listed in
// registry.cc.
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

// Something a source of a kind could read.
struct Found {
  // How it is asked for: a PCI id "0000:1b:00.0", a UUID ("MIG-..."), a name;
  // empty where there is only one.
  std::string device;
  std::string uuid;   // Empty: not known.
  std::string label;  // For people: "NVIDIA H200", "cgroup /user.slice".
  Scope scope = Scope::kCard;
};

struct Sighting {
  std::vector<Found> found = {};
  std::string why_not = {};  // When nothing was found, or not all could be looked at.
  // There is nothing to find: it is whatever its user names.
  bool named_by_user = false;
};

class SourceKind {
 public:
  virtual ~SourceKind() = default;
  virtual std::string_view name() const = 0;  // "nvml"
  virtual std::string_view what() const = 0;  // For help: "NVIDIA's management library"
  // Whether a cache chooses it by itself for a GPU: it reads one, and takes no
  // memory of it for that.
  virtual bool for_gpus() const { return false; }
  // May be slow or hang, as drivers do: call it on a thread that can be left.
  virtual Sighting Look(const Machine& machine) const = 0;
  // `device` as in Found; empty: the only one, and an error when there are
  // several. Unavailable says what is not there and what is.
  virtual Result<std::shared_ptr<PressureSource>> Open(const Machine& machine,
                                                       std::string_view device) const = 0;
};

// In the order in which they are preferred for one device.
std::span<const SourceKind* const> SourceKinds();

// "nvml", "nvml:0000:1b:00.0", "nvml:GPU-...", "card:demo", "host", "disk:/var/cache",
// "file:/run/pressure", "fixed:0.5". InvalidArgument for a kind that is not
// known, Unavailable for a device that is not there.
// `besides`: what else the caller would have understood, for its words if it is none of these.
Result<std::shared_ptr<PressureSource>> OpenSource(std::string_view spec, const Machine& machine,
                                                   std::span<const std::string_view> besides = {});

// A PCI id in the one spelling used here, "0000:1b:00.0"; empty: it is none.
std::string CanonicalPci(std::string_view text);

// The one of `found` that `device` names, by PCI id or UUID; with an empty
// `device` the only one there is.
Result<Found> Choose(const Sighting& sighting, std::string_view kind, std::string_view device);

// Checks what a driver said: a total of 0, more free than there is, or all ones
// is an Error naming it.
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
