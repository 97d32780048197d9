// SPDX-License-Identifier: Apache-2.0
// The kind "host": the machine's memory, as far as this process may use it. If
// a control group allows less than the machine has left, the reading is the
// group's: when the group is full its processes are killed, however much memory
// the machine has left.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/host_memory.h"
#include "base/printable.h"
#include "monitor/psi.h"
#include "monitor/source/kind.h"

namespace spillway {
namespace {

// The tightest of the machine's and the control groups' bounds.
Result<MemoryBound> Bound(const Machine& machine) {
  const Result<std::vector<MemoryBound>> bounds = MemoryBounds(machine.proc, machine.sys);
  if (!bounds) return Error{bounds.error().code, "host: " + bounds.error().message};
  return Tightest(*bounds);
}

Scope ScopeOf(const MemoryBound& bound) {
  return bound.cgroup.empty() ? Scope::kMachine : Scope::kCgroup;
}

class HostSource final : public PressureSource {
 public:
  explicit HostSource(Machine machine) : machine_(std::move(machine)) {
    // Without a trigger only time is lost: readings come at their pace.
    for (const std::string& file : PsiFiles(machine_)) {
      Result<std::unique_ptr<PsiTrigger>> trigger = PsiTrigger::Open(file);
      if (!trigger || (*trigger)->fd() < 0) continue;
      stalls_ = std::move(*trigger);
      break;
    }
  }

  // Groups are looked up each time: a process can be moved to another group,
  // and limits can change.
  Result<Reading> Read() override {
    const Result<MemoryBound> bound = Bound(machine_);
    if (!bound) return bound.error();
    return Checked({bound->total, bound->free, {}, ScopeOf(*bound)}, name());
  }
  std::string_view name() const override { return "host"; }
  int wake_fd() const override { return stalls_ != nullptr ? stalls_->fd() : -1; }

 private:
  const Machine machine_;
  std::unique_ptr<PsiTrigger> stalls_;  // Null: the kernel gives no wake-ups.
};

class HostSources final : public SourceKind {
 public:
  std::string_view name() const override { return "host"; }
  std::string_view what() const override { return "host memory, as the control group allows"; }

  Sighting Look(const Machine& machine) const override {
    const Result<MemoryBound> bound = Bound(machine);
    if (!bound) return {.why_not = bound.error().message};
    Found found;
    found.label = bound->cgroup.empty() ? "host memory" : "cgroup " + Printable(bound->cgroup);
    found.scope = ScopeOf(*bound);
    return {.found = {found}};
  }

  Result<std::shared_ptr<PressureSource>> Open(const Machine& machine,
                                               std::string_view device) const override {
    if (!device.empty()) {
      return Error{
          Code::kInvalidArgument,
          fmt::format("host: there is only one, '{}' is not known; write host", Printable(device))};
    }
    auto source = std::make_shared<HostSource>(machine);
    if (const Result<Reading> first = source->Read(); !first) return first.error();
    return std::shared_ptr<PressureSource>(std::move(source));
  }
};

}  // namespace

const SourceKind& HostKind() {
  static const HostSources kKind;
  return kKind;
}

}  // namespace spillway
