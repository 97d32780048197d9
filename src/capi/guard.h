// How a call of the C ABI ends: with a code and, on failure, words that the
// calling thread keeps. No exception gets past Guarded.
#pragma once

#include <exception>
#include <new>
#include <string_view>
#include <utility>

#include "spillway/result.h"
#include "spillway/spillway.h"

namespace spillway::capi {

spillway_code CodeOf(Code code);

// Keeps the words for spillway_error_message and returns the code.
spillway_code Fail(Code code, std::string_view message) noexcept;
const char* LastMessage() noexcept;

inline Error Bad(std::string message) { return Error{Code::kInvalidArgument, std::move(message)}; }

// Copies as much of `message` as fits, always ended by a zero.
void CopyMessage(std::string_view message, char* to, std::size_t capacity) noexcept;

// `work` returns a Status.
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
