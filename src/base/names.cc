// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "spillway/mode.h"
#include "spillway/options.h"
#include "spillway/pressure.h"
#include "spillway/result.h"

namespace spillway {

std::string_view Name(Mode mode) {
  switch (mode) {
    case Mode::kRelaxed:
      return "relaxed";
    case Mode::kNormal:
      return "normal";
    case Mode::kPressure:
      return "pressure";
    case Mode::kCritical:
      return "critical";
    case Mode::kEmergency:
      return "emergency";
    case Mode::kWorkflowAware:
      return "workflow_aware";
  }
  return "";
}

std::string_view Name(Level level) { return Name(ModeOf(level)); }

std::string_view Name(Action action) {
  switch (action) {
    case Action::kBack:
      return "back";
    case Action::kDrop:
      return "drop";
    case Action::kDemote:
      return "demote";
    case Action::kDestroy:
      return "destroy";
    case Action::kExpire:
      return "expire";
  }
  return "";
}

std::string_view Name(Reason reason) {
  switch (reason) {
    case Reason::kExpired:
      return "expired";
    case Reason::kIdle:
      return "idle";
    case Reason::kHeavy:
      return "heavy";
    case Reason::kOrder:
      return "order";
    case Reason::kRoom:
      return "room";
    case Reason::kBudget:
      return "budget";
    case Reason::kReserve:
      return "reserve";
    case Reason::kAsk:
      return "ask";
    case Reason::kErased:
      return "erased";
    case Reason::kReplaced:
      return "replaced";
    case Reason::kCleared:
      return "cleared";
    case Reason::kCorrupt:
      return "corrupt";
    case Reason::kLost:
      return "lost";
  }
  return "";
}

std::string_view Name(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return "InvalidArgument";
    case Code::kBlocked:
      return "Blocked";
    case Code::kOverBudget:
      return "OverBudget";
    case Code::kTooLarge:
      return "TooLarge";
    case Code::kNoMemory:
      return "NoMemory";
    case Code::kNotResident:
      return "NotResident";
    case Code::kDeadline:
      return "Deadline";
    case Code::kCancelled:
      return "Cancelled";
    case Code::kBusy:
      return "Busy";
    case Code::kClosed:
      return "Closed";
    case Code::kUnavailable:
      return "Unavailable";
    case Code::kInternal:
      return "Internal";
    case Code::kCorrupt:
      return "Corrupt";
  }
  return "";
}

Options Options::Seed() {
  Options options;
  options.policy = "seed";
  options.ttl.reset();
  options.token_budget.reset();
  options.exit_band = 0;
  options.dwell = Duration::zero();
  options.unlimited = true;
  return options;
}

std::string_view Name(Scope scope) {
  switch (scope) {
    case Scope::kCard:
      return "card";
    case Scope::kInstance:
      return "instance";
    case Scope::kPartition:
      return "partition";
    case Scope::kMachine:
      return "machine";
    case Scope::kCgroup:
      return "cgroup";
    case Scope::kFileSystem:
      return "file system";
    case Scope::kGiven:
      return "given";
  }
  return "";
}

double Reading::pressure() const {
  const Bytes usable = total - std::min(reserved.value_or(0), total);
  if (usable == 0) return 1;
  return 1 - static_cast<double>(std::min(free, usable)) / static_cast<double>(usable);
}

}  // namespace spillway
