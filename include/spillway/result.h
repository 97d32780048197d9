// SPDX-License-Identifier: Apache-2.0
// Result<T>: a value or an Error. It is spelled like std::expected, so that it can be replaced by
// that later. A missing key is not an error: such calls return Result<std::optional<...>>.
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

// Error codes are few and meant for programs. The message is meant for people: it names the entry,
// tier or setting, and says what would be accepted.
enum class Code : std::uint8_t {
  kInvalidArgument,  // The request itself is wrong; repeating it will not help.
  kBlocked,          // Pressure: no tier accepts new entries now.
  kOverBudget,       // The token budget is used up and no entry may be evicted.
  kTooLarge,         // Larger than the capacity of every tier.
  kNoMemory,         // A device or the operating system refused to allocate memory.
  kNotResident,      // The entry exists, but not in the tier that was asked for.
  kDeadline,         // The time limit of the call was reached.
  kCancelled,
  kBusy,         // A limit was reached (leases on one entry, operations in flight).
  kClosed,       // The cache is closed or closing.
  kUnavailable,  // A device, file or pressure source is missing.
  kInternal,
  kCorrupt  // The bytes differ from the bytes that were stored. Corrupt bytes are never returned.
};

SPILLWAY_API std::string_view Name(Code code);

// A code for programs and a message for people.
struct Error {
  Code code = Code::kInternal;
  std::string message;
};

// A value or an Error. Reading the value of an error, or the error of a value, is a bug and
// asserts.
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

// Success, or an Error.
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
