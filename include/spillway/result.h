// Result<T>: a value or an Error, spelled like std::expected so that one day it
// can be one. Not found is an answer, not an error: Result<std::optional<...>>.
#pragma once

#include <cassert>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "spillway/export.h"

namespace spillway {

// Few codes, for programs. The message, for people, names the thing, the place
// and what would be right.
enum class Code : std::uint8_t {
  kInvalidArgument,  // The request itself is wrong; repeating it will not help.
  kBlocked,          // No tier may take it now.
  kOverBudget,       // The token budget is spent and nothing may leave.
  kTooLarge,         // Larger than any tier could ever hold.
  kNoMemory,         // A device or the system refused memory.
  kNotResident,      // It exists, but not where it was asked for.
  kDeadline,         // The time allowed ran out.
  kCancelled,
  kBusy,         // A bound was reached (leases on one entry, operations in flight).
  kClosed,       // The cache is closed or closing.
  kUnavailable,  // A device, file or source that is not there.
  kInternal,
  kCorrupt  // The bytes are not those that were stored; they are never served.
};

SPILLWAY_API std::string_view Name(Code code);

struct Error {
  Code code = Code::kInternal;
  std::string message;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  using value_type = T;
  using error_type = Error;

  // NOLINTNEXTLINE(google-explicit-constructor)
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  template <typename... Args>
  explicit Result(std::in_place_t, Args&&... args)
      : state_(std::in_place_index<0>, std::forward<Args>(args)...) {}

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  T& value() & { return Checked(); }
  const T& value() const& { return const_cast<Result*>(this)->Checked(); }
  T&& value() && { return std::move(Checked()); }
  T& operator*() & { return Checked(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(Checked()); }
  T* operator->() { return &Checked(); }
  const T* operator->() const { return &value(); }

  const Error& error() const {
    assert(!has_value());
    return std::get<1>(state_);
  }

 private:
  T& Checked() {
    assert(has_value());
    return *std::get_if<0>(&state_);
  }
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;
  using error_type = Error;

  Result() = default;
  // NOLINTNEXTLINE(google-explicit-constructor)
  Result(Error error) : error_(std::move(error)) {}

  bool has_value() const { return !error_.has_value(); }
  explicit operator bool() const { return has_value(); }
  const Error& error() const {
    assert(error_.has_value());
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace spillway
