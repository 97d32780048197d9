#include "monitor/bounded_read.h"

#include <atomic>

#include <fmt/format.h>

#include "base/parse.h"

namespace spillway {

struct BoundedReader::Shared {
  std::shared_ptr<PressureSource> source;
  std::atomic<bool> out{false};
};

BoundedReader::BoundedReader(std::shared_ptr<PressureSource> source)
    : shared_(std::make_shared<Shared>()) {
  shared_->source = std::move(source);
}

Result<Reading> BoundedReader::Read(Duration within) {
  if (shared_->out.exchange(true)) {
    return Error{Code::kDeadline,
                 fmt::format("{}: an earlier call has not returned yet", shared_->source->name())};
  }
  std::optional<Result<Reading>> reading = RunBounded(within, [shared = shared_] {
    Result<Reading> got = shared->source->Read();
    shared->out.store(false);
    return got;
  });
  if (reading) return std::move(*reading);
  return Error{Code::kDeadline, fmt::format("{}: no answer within {}", shared_->source->name(),
                                            FormatDuration(within))};
}

}  // namespace spillway
