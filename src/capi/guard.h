// SPDX-License-Identifier: Apache-2.0
// How a call of the C ABI ends: it returns a code and, on failure, stores a message for the calling
// thread. No exception passes Guarded.
#pragma once

#include <exception>
#include <new>
#include <string_view>
#include <utility>

#include "spillway/result.h"
#include "spillway/spillway.h"

namespace spillway::capi {

// The C ABI's number for an error code.
spillway_code CodeOf(Code code);

// Stores the message for spillway_error_message and returns the code.
spillway_code Fail(Code code, std::string_view message) noexcept;
const char* LastMessage() noexcept;

// An error for a wrong argument. The message names the argument and says what it must be.
inline Error Bad(std::string message) { return Error{Code::kInvalidArgument, std::move(message)}; }

// Copies as much of `message` as fits. The text in `to` always ends with a zero byte.
void CopyMessage(std::string_view message, char* to, std::size_t capacity) noexcept;

// Runs `work`, which returns a Status, and turns its error or exception into a code.
template <typename Work>
spillway_code Guarded(Work&& work) noexcept {
  try {
    const Status status = work();
    return status ? SPILLWAY_OK : Fail(status.error().code, status.error().message);
  } catch (const std::bad_alloc&) {
    return Fail(Code::kNoMemory, "the system refused memory");
  } catch (const std::exception& error) {
    return Fail(Code::kInternal, error.what());
  } catch (...) {
    return Fail(Code::kInternal, "an exception of unknown kind");
  }
}

}  // namespace spillway::capi
