// SPDX-License-Identifier: Apache-2.0
// How a test controls and questions a fake GPU library. A returned text is valid until
// the next call of the same function.
#include "fakes/gpu/gpu.h"

namespace {

fakes::Gpu& Gpu() { return fakes::Gpu::Get(); }

std::string kept_misuse;
std::string kept_leaks;
std::string kept_failed;

}  // namespace

FAKE_API void spillway_fake_reset(const char* options) { Gpu().Reset(options); }
FAKE_API void spillway_fake_fail(std::uint64_t n, int code, bool for_good) {
  Gpu().FailCall(n, code, for_good);
}
FAKE_API void spillway_fake_fail_function(const char* function, std::uint64_t n, int code,
                                          bool for_good) {
  Gpu().FailFunction(function, n, code, for_good);
}
FAKE_API void spillway_fake_lose(int code) { Gpu().Lose(code); }
FAKE_API void spillway_fake_hang(bool hung) { Gpu().Hang(hung); }
FAKE_API void spillway_fake_garble(std::uint64_t n) { Gpu().Garble(n); }
FAKE_API void spillway_fake_foreign(int card, std::uint64_t bytes) { Gpu().Foreign(card, bytes); }
FAKE_API int spillway_fake_finish() { return Gpu().Finish(); }
FAKE_API bool spillway_fake_peek(std::uint64_t at, void* into, std::size_t bytes) {
  return Gpu().Peek(at, into, bytes);
}
FAKE_API bool spillway_fake_poke(std::uint64_t at, const void* from, std::size_t bytes) {
  return Gpu().Poke(at, from, bytes);
}
FAKE_API const char* spillway_fake_misuse() { return (kept_misuse = Gpu().misuse()).c_str(); }
FAKE_API void spillway_fake_forget_misuse() { Gpu().ForgetMisuse(); }
FAKE_API const char* spillway_fake_leaks() { return (kept_leaks = Gpu().leaks()).c_str(); }
FAKE_API const char* spillway_fake_failed() { return (kept_failed = Gpu().failed()).c_str(); }
FAKE_API bool spillway_fake_out_of_reach() { return Gpu().out_of_reach(); }
FAKE_API std::uint64_t spillway_fake_calls() { return Gpu().calls(); }
FAKE_API std::uint64_t spillway_fake_calls_of(const char* function) {
  return Gpu().calls(function);
}
FAKE_API std::uint64_t spillway_fake_pageable() { return Gpu().pageable(); }
FAKE_API std::uint64_t spillway_fake_pending() { return Gpu().pending(); }
FAKE_API std::uint64_t spillway_fake_used(int card) { return Gpu().used(card); }
FAKE_API int spillway_fake_current() { return Gpu().current(); }
