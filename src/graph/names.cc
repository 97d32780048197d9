// SPDX-License-Identifier: Apache-2.0
#include "spillway/step_graph_types.h"

namespace spillway {

std::string_view Name(RunState state) {
  switch (state) {
    case RunState::kLive:
      return "live";
    case RunState::kFinished:
      return "finished";
    case RunState::kFailed:
      return "failed";
    case RunState::kCancelled:
      return "cancelled";
    case RunState::kExpired:
      return "expired";
  }
  return "";
}

std::string_view Name(StepState state) {
  switch (state) {
    case StepState::kPending:
      return "pending";
    case StepState::kReady:
      return "ready";
    case StepState::kRunning:
      return "running";
    case StepState::kDone:
      return "done";
    case StepState::kSkipped:
      return "skipped";
    case StepState::kFailed:
      return "failed";
  }
  return "";
}

std::string_view Name(Join join) {
  switch (join) {
    case Join::kAll:
      return "all";
    case Join::kAny:
      return "any";
    case Join::kKOf:
      return "k";
  }
  return "";
}

std::string_view Name(EdgeKind kind) { return kind == EdgeKind::kForward ? "forward" : "back"; }

std::string_view Name(KeyKind kind) {
  switch (kind) {
    case KeyKind::kFixed:
      return "fixed";
    case KeyKind::kHistory:
      return "history";
    case KeyKind::kVolatile:
      return "volatile";
  }
  return "";
}

std::string_view Name(OnFail on_fail) {
  switch (on_fail) {
    case OnFail::kSkip:
      return "skip";
    case OnFail::kPoison:
      return "poison";
    case OnFail::kRetry:
      return "retry";
  }
  return "";
}

}  // namespace spillway
