// SPDX-License-Identifier: Apache-2.0
#include "monitor/bounded_read.h"

#include <atomic>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/parse.h"

namespace spillway {

struct BoundedReader::Shared {
  std::shared_ptr<PressureSource> source;
  std::atomic<bool> out{false};
};

namespace {
// Marks the call as running for as long as this object lives, on whichever thread.
template <typename Shared>
class Out {
 public:
  explicit Out(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
  Out(Out&&) noexcept = default;
  Out& operator=(Out&&) = delete;
  ~Out() {
    if (shared_ != nullptr) shared_->out.store(false);
  }
  Shared* operator->() const { return shared_.get(); }

 private:
  std::shared_ptr<Shared> shared_;
};
}  // namespace

BoundedReader::BoundedReader(std::shared_ptr<PressureSource> source)
    : shared_(std::make_shared<Shared>()) {
  shared_->source = std::move(source);
}

Result<Reading> BoundedReader::Read(Duration within) {
  if (shared_->out.exchange(true)) {
    return Error{Code::kDeadline,
                 fmt::format("{}: an earlier call has not returned yet", shared_->source->name())};
  }
  std::optional<Result<Reading>> reading =
      RunBounded(within, [out = std::optional<Out<Shared>>(shared_)]() mutable {
        Result<Reading> got = (*out)->source->Read();
        out.reset();
        return got;
      });
  if (reading) return std::move(*reading);
  return Error{Code::kDeadline, fmt::format("{}: no answer within {}", shared_->source->name(),
                                            FormatDuration(within))};
}

}  // namespace spillway
