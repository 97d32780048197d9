// SPDX-License-Identifier: Apache-2.0
#include "device/testing/fake_gpu.h"

#include <cassert>
#include <cstdlib>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/library.h"
#include "base/symbols.h"

namespace spillway::testing {

namespace {

// An invalid environment of the test must not look like a result.
template <typename Value>
void Must(const Value& value) {
  if (!value) {
    fmt::print(stderr, "fake GPU: {}\n", value.error().message);
    std::abort();
  }
}

}  // namespace

struct FakeGpu::Controls {
  void (*reset)(const char*) = nullptr;
  void (*fail)(std::uint64_t, int, bool) = nullptr;
  void (*fail_function)(const char*, std::uint64_t, int, bool) = nullptr;
  void (*lose)(int) = nullptr;
  void (*hang)(bool) = nullptr;
  void (*garble)(std::uint64_t) = nullptr;
  void (*foreign)(int, std::uint64_t) = nullptr;
  int (*finish)() = nullptr;
  bool (*peek)(std::uint64_t, void*, std::size_t) = nullptr;
  bool (*poke)(std::uint64_t, const void*, std::size_t) = nullptr;
  const char* (*misuse)() = nullptr;
  void (*forget_misuse)() = nullptr;
  const char* (*leaks)() = nullptr;
  const char* (*failed)() = nullptr;
  bool (*out_of_reach)() = nullptr;
  std::uint64_t (*calls)() = nullptr;
  std::uint64_t (*calls_of)(const char*) = nullptr;
  std::uint64_t (*pageable)() = nullptr;
  std::uint64_t (*pending)() = nullptr;
  std::uint64_t (*used)(int) = nullptr;
  int (*current)() = nullptr;

  explicit Controls(const std::string& path) {
    const Result<spillway::Library> library = spillway::Library::Open({path});
    Must(library);
    Symbols symbols(*library);
    symbols.Need("spillway_fake_reset", &reset);
    symbols.Need("spillway_fake_fail", &fail);
    symbols.Need("spillway_fake_fail_function", &fail_function);
    symbols.Need("spillway_fake_lose", &lose);
    symbols.Need("spillway_fake_hang", &hang);
    symbols.Need("spillway_fake_garble", &garble);
    symbols.Need("spillway_fake_foreign", &foreign);
    symbols.Need("spillway_fake_finish", &finish);
    symbols.Need("spillway_fake_peek", &peek);
    symbols.Need("spillway_fake_poke", &poke);
    symbols.Need("spillway_fake_misuse", &misuse);
    symbols.Need("spillway_fake_forget_misuse", &forget_misuse);
    symbols.Need("spillway_fake_leaks", &leaks);
    symbols.Need("spillway_fake_failed", &failed);
    symbols.Need("spillway_fake_out_of_reach", &out_of_reach);
    symbols.Need("spillway_fake_calls", &calls);
    symbols.Need("spillway_fake_calls_of", &calls_of);
    symbols.Need("spillway_fake_pageable", &pageable);
    symbols.Need("spillway_fake_pending", &pending);
    symbols.Need("spillway_fake_used", &used);
    symbols.Need("spillway_fake_current", &current);
    Must(symbols.Done());
  }
};

std::string FakeGpuOptions::Text() const {
  return fmt::format(
      "cards {};total {};granularity {};name {};uuid {};pci {};version {};seed {};stale {};"
      "thread {};strict {};foreign {};vmm {}{}{}{}{}",
      cards, total, granularity, name, uuid, pci, version, seed, int{stale}, int{thread},
      int{strict}, foreign, vmm, backing.empty() ? "" : ";backing ", backing,
      together.empty() ? "" : ";together ", together);
}

std::string FakeGpu::Library(GpuKind kind, std::string_view fakes_dir, std::string_view variant) {
  return fmt::format("{}/fake_gpu_{}{}{}.so", fakes_dir, Name(kind), variant.empty() ? "" : "_",
                     variant);
}

FakeGpu::FakeGpu(GpuKind kind, std::string_view fakes_dir, const FakeGpuOptions& options,
                 std::string_view variant)
    : library_(Library(kind, fakes_dir, variant)), controls_(std::make_unique<Controls>(library_)) {
  Reset(options);
  const auto driver = GpuDriver::Load(kind, {library_});
  Must(driver);
  driver_ = *driver;
}

FakeGpu::~FakeGpu() {
  if (const std::string amiss = misuse(); !amiss.empty()) ADD_FAILURE() << "misuse: " << amiss;
  if (!out_of_reach()) {
    if (const std::string left = leaks(); !left.empty()) ADD_FAILURE() << "left: " << left;
  }
  Reset({});
}

void FakeGpu::Reset(const FakeGpuOptions& options) { controls_->reset(options.Text().c_str()); }
void FakeGpu::Fail(std::uint64_t n, int code, bool for_good) { controls_->fail(n, code, for_good); }
void FakeGpu::FailFunction(const std::string& function, std::uint64_t n, int code, bool for_good) {
  controls_->fail_function(function.c_str(), n, code, for_good);
}
void FakeGpu::Lose(int code) { controls_->lose(code); }
void FakeGpu::Hang(bool hung) { controls_->hang(hung); }
void FakeGpu::Garble(std::uint64_t n) { controls_->garble(n); }
void FakeGpu::SetForeign(Bytes bytes, int card) { controls_->foreign(card, bytes); }
int FakeGpu::Finish() { return controls_->finish(); }

std::string FakeGpu::Peek(GpuAddress at, Bytes bytes) const {
  std::string text(bytes, '\0');
  const bool there = controls_->peek(at, text.data(), bytes);
  assert(there);
  static_cast<void>(there);
  return text;
}
void FakeGpu::Poke(GpuAddress at, std::string_view bytes) {
  const bool there = controls_->poke(at, bytes.data(), bytes.size());
  assert(there);
  static_cast<void>(there);
}

std::string FakeGpu::misuse() const { return controls_->misuse(); }
std::string FakeGpu::leaks() const { return controls_->leaks(); }
std::string FakeGpu::TakeMisuse() {
  std::string text = misuse();
  controls_->forget_misuse();
  return text;
}
bool FakeGpu::out_of_reach() const { return controls_->out_of_reach(); }

std::uint64_t FakeGpu::calls() const { return controls_->calls(); }
std::uint64_t FakeGpu::calls(const std::string& function) const {
  return controls_->calls_of(function.c_str());
}
std::string FakeGpu::failed() const { return controls_->failed(); }
std::uint64_t FakeGpu::pageable() const { return controls_->pageable(); }
std::uint64_t FakeGpu::pending() const { return controls_->pending(); }
Bytes FakeGpu::used(int card) const { return controls_->used(card); }
int FakeGpu::current() const { return controls_->current(); }

}  // namespace spillway::testing
