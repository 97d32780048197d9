// SPDX-License-Identifier: Apache-2.0
// The memory of the fake cards, and what the driver knows about the host's.
//
// 1. Physical memory is host pages of the fake's own. A device address is reserved
//    address space without any access: a program that dereferences one crashes.
// 2. Physical memory counts against its card until it is both released and unmapped.
// 3. A card can use a mapping only after it was given access.
//
// Not for several threads at once: Gpu has a mutex.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fakes/gpu/complaints.h"
#include "fakes/gpu/options.h"
#include "fakes/gpu/together.h"

namespace fakes {

inline constexpr int kInvalidValue = 1;
inline constexpr int kOutOfMemory = 2;
inline constexpr int kNotInitialized = 3;
inline constexpr int kInvalidDevice = 101;
inline constexpr int kInvalidContext = 201;
inline constexpr int kInvalidHandle = 400;
inline constexpr int kNotFound = 500;
inline constexpr int kNotReady = 600;
inline constexpr int kIllegalAddress = 700;
inline constexpr int kTimeout = 702;
inline constexpr int kAlreadyRegistered = 712;
inline constexpr int kNotRegistered = 713;

using Address = std::uint64_t;

// Bytes of the fake's own or of the host, which stay valid as long as the Span.
struct Span {
  std::byte* at = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<const void> keep;
};

class Memory {
 public:
  Memory(const Options& options, Complaints* complaints);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // As the functions of the driver's table, on arguments that may be wrong.
  int Reserve(Address* at, std::size_t bytes, std::size_t align);
  int FreeRange(Address at, std::size_t bytes);
  int Create(std::uint64_t* handle, std::size_t bytes, int card);
  int Release(std::uint64_t handle, bool must_be_unmapped);
  int Map(Address at, std::size_t bytes, std::size_t offset, std::uint64_t handle);
  int Unmap(Address at, std::size_t bytes, bool one_by_one);
  int SetAccess(Address at, std::size_t bytes, int card, int flags);
  int Alloc(Address* at, std::size_t bytes, int card);
  int Free(Address at);
  int HostAlloc(void** at, std::size_t bytes);
  int HostFree(const void* at);
  int Register(const void* at, std::size_t bytes);
  int Unregister(const void* at);

  // Where it ends; empty: nothing of this kind begins here.
  std::optional<Address> AllocEnd(Address at) const;
  std::optional<Address> HostEnd(const void* at) const;

  std::uint64_t free_bytes(int card) const;
  std::uint64_t used(int card) const { return used_[static_cast<std::size_t>(card)]; }
  void SetForeign(int card, std::uint64_t bytes);

  bool IsDevice(Address at) const;
  // Empty: that card can't use it in this way; card -1: no card can.
  std::optional<std::vector<Span>> Resolve(Address at, std::size_t bytes, int card,
                                           bool write) const;
  enum class Host { kPinned, kPageable, kTorn };  // Torn: in part, or across two.
  Host HostKind(Address at, std::size_t bytes) const;

  // A line for each thing that is still there.
  std::string Ledger() const;

 private:
  class Pages;
  struct Physical {
    int card = 0;
    std::shared_ptr<Pages> pages;
    std::size_t bytes = 0;
    std::size_t mappings = 0;
    bool released = false;
    bool allocated = false;  // By Alloc.
    Address range = 0;       // The last it was mapped in.
  };
  struct Mapping {
    std::size_t bytes = 0;
    std::uint64_t handle = 0;
    std::array<int, kCardsMax> access{};
  };
  struct Range {
    std::size_t bytes = 0;
    bool alloc = false;  // By Alloc: mapping and range are one.
  };
  struct HostRange {
    std::size_t bytes = 0;
    std::byte* allocated = nullptr;
  };

  bool IsWhole(std::size_t bytes) const { return bytes != 0 && bytes % options_.granularity == 0; }
  std::map<Address, Range>::const_iterator RangeOf(Address at) const;
  std::map<Address, Mapping>::const_iterator MappingOf(Address at) const;
  bool AnyMapped(Address at, std::size_t bytes) const;
  bool AnyHost(Address at, std::size_t bytes) const;
  // The mappings that fill the range exactly; empty: they don't.
  std::vector<Address> Whole(Address at, std::size_t bytes) const;
  Address TakeAddresses(std::size_t bytes, std::size_t align);
  std::shared_ptr<Pages> TakePages(std::size_t bytes);
  // Whether memory that was given back stays taken, as `vmm` has it.
  bool StaysTaken(const Physical& physical) const;
  void Count(std::size_t card, std::uint64_t taken, std::uint64_t returned);
  void Unmapped(std::map<Address, Mapping>::const_iterator mapping);
  void Settle(std::uint64_t handle);
  template <typename... Parts>
  int Wrong(int code, const Parts&... parts) {
    complaints_->Add(parts...);
    return code;
  }

  const Options options_;
  Complaints* const complaints_;
  std::map<Address, Range> ranges_;
  std::map<Address, Mapping> mappings_;
  std::map<std::uint64_t, Physical> physical_;
  std::map<Address, HostRange> host_;
  std::uint64_t last_handle_ = 0x1000;
  std::array<std::uint64_t, kCardsMax> used_{};  // By Count.
  const std::unique_ptr<Together> together_;     // Null: this process has the cards alone.
  std::array<std::uint64_t, kCardsMax> foreign_{};
  // Released and still counted, by range: for `vmm keeps`.
  std::map<Address, std::array<std::uint64_t, kCardsMax>> kept_;
  // Contents of released memory, by its size: for `stale`.
  std::map<std::size_t, std::vector<std::shared_ptr<Pages>>> left_;
};

}  // namespace fakes
