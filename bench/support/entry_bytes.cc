// SPDX-License-Identifier: Apache-2.0
#include "bench/support/entry_bytes.h"

#include <malloc.h>
#include <unistd.h>

#include <fstream>

#include <fmt/format.h>

#include "bench/support/engines.h"
#include "cache/slot.h"

namespace spillway::bench {

namespace {

constexpr std::size_t kKeyBytes = 16;

double ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t total = 0;
  std::uint64_t resident = 0;
  file >> total >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

double HeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd);
}

}  // namespace

void MeasureEntryBytes(const Settings& settings, Report* report) {
  const std::size_t entries = settings.quick ? 100'000 : 1'000'000;
  malloc_trim(0);
  const double resident_before = ResidentBytes();
  const double heap_before = HeapBytes();
  Options options;
  options.capacity = entries * 64;
  options.token_budget.reset();
  const auto cache = OpenOrStop(options);
  for (std::size_t rank = 0; rank < entries; ++rank) {
    const Request request = RequestFor(rank);
    if (!cache->Set(request.key(), Source(&request.value, sizeof request.value), {.tokens = 16})) {
      std::fprintf(stderr, "filling for the bytes: a set was refused\n");
      std::exit(1);
    }
  }
  const Stats stats = cache->stats();
  const auto per_entry = [&](double bytes) { return bytes / static_cast<double>(entries); };
  const double index = per_entry(static_cast<double>(stats.index_bytes));
  const double table = index - sizeof(Slot) - sizeof(Record);
  const double heap = per_entry(HeapBytes() - heap_before);
  const double resident = per_entry(ResidentBytes() - resident_before);
  const double held = per_entry(static_cast<double>(stats.device.held));
  const double beside_key = index - kKeyBytes;

  report->Table(fmt::format("bytes per entry: {} entries, keys of 16 bytes", entries),
                {"part", "bytes"});
  const auto row = [&](const char* part, double bytes) {
    report->Row({part, fmt::format("{:.1f}", bytes)});
  };
  row("slot (lease word, hash, stamp, address, size, key)", sizeof(Slot));
  row("record (generation, lineage, tokens, place)", sizeof(Record));
  row("table of heads", table);
  row("index as stats say, key included", index);
  row("index beside the key", beside_key);
  row("heap: rankings of the policy and what else is allocated", heap);
  row("value and its slack in the tier (8-byte values)", held);
  row("growth of resident memory, all of it", resident);
  report->data()["bytes"] = {
      {"entries", entries}, {"slot", sizeof(Slot)}, {"record", sizeof(Record)},
      {"table", table},     {"index", index},       {"index_beside_key", beside_key},
      {"heap", heap},       {"held", held},         {"resident_growth", resident}};
  report->Add(
      {"index per entry beside key and policy history", beside_key, 128, 64, false, "bytes"});
}

}  // namespace spillway::bench
