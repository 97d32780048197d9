// SPDX-License-Identifier: Apache-2.0
#include "tier/disk/journal_scan.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "base/mutant.h"

namespace spillway {
namespace {

// A window of a file that is read forwards.
class Window {
 public:
  Window(Files& files, int file) : files_(files), file_(file) {
    if (file >= 0) memory_ = std::make_unique_for_overwrite<std::byte[]>(kBytes);
  }

  // Returns the file's bytes from `at` on: enough for any record, unless the
  // file ends before. `at` must never fall.
  std::span<const std::byte> From(Bytes at) {
    if (file_ < 0) return {};
    while (more_ && begin_ + held_ < at + JournalRecord::kBytesMax) Read(at);
    if (at >= begin_ + held_) return {};
    return {memory_.get() + (at - begin_), begin_ + held_ - at};
  }
  int error() const { return error_; }

 private:
  static constexpr Bytes kBytes = 4 * kMiB;
  static_assert(kBytes >= 2 * JournalRecord::kBytesMax);

  void Read(Bytes at) {
    const Bytes gone = std::min(at - begin_, held_);
    std::memmove(memory_.get(), memory_.get() + gone, held_ - gone);
    begin_ = at;
    held_ -= gone;
    const std::int64_t got =
        files_.ReadAt(file_, begin_ + held_, memory_.get() + held_, kBytes - held_);
    if (got == -EINTR) return;
    if (got < 0) error_ = static_cast<int>(-got);
    more_ = got > 0;
    if (got > 0) held_ += static_cast<Bytes>(got);
  }

  Files& files_;
  const int file_;
  std::unique_ptr<std::byte[]> memory_;
  Bytes begin_ = 0;  // Offset of the first byte held.
  Bytes held_ = 0;
  bool more_ = true;
  int error_ = 0;
};

class Scanner {
 public:
  Scanner(Files& files, int file, int mirror, const JournalHeader& header)
      : main_(files, file), mirror_(files, mirror), has_mirror_(mirror >= 0), seed_(header.Seed()) {
    scan_.good = JournalHeader::kBytes;
    scan_.last_sequence = header.first_sequence - 1;
    // A mirror is used even if its header cannot be compared.
  }

  JournalScan Run(JournalVisitor* visitor) {
    for (;;) {
      std::optional<Parsed> parsed = Next();
      if (scan_.error != 0) return scan_;
      if (!parsed) {
        const Bytes from = scan_.good;
        if (main_.From(from).empty() && mirror_.From(from).empty()) return scan_;
        const std::optional<Bytes> next =
            MutantOn(Mutant::kDamagedRecordEndsReplay) ? std::nullopt : NextWhole();
        if (scan_.error != 0) return scan_;
        if (!next) {
          scan_.torn = true;
          return scan_;
        }
        ++scan_.gaps;
        scan_.gap_bytes += *next - from;
        visitor->Gap(from, *next - from);
        scan_.good = *next;
        continue;
      }
      const Bytes at = std::exchange(scan_.good, scan_.good + parsed->bytes);
      if (parsed->record.is_padding()) {
        visitor->Padding(parsed->record.synced_bytes);
        continue;
      }
      scan_.last_sequence = parsed->record.sequence;
      if (!visitor->Record(std::move(parsed->record), at, parsed->bytes)) return scan_;
    }
  }

 private:
  // Accepts complete records that are newer than the last one.
  std::optional<Parsed> Parse(std::span<const std::byte> bytes) const {
    std::optional<Parsed> parsed = ParseRecord(bytes, seed_);
    if (parsed && !parsed->record.is_padding() && parsed->record.sequence <= scan_.last_sequence) {
      parsed.reset();
    }
    return parsed;
  }

  std::optional<Parsed> Next() {
    const auto main = main_.From(scan_.good);
    scan_.error = main_.error();
    const auto mirror = mirror_.From(scan_.good);
    std::optional<Parsed> parsed = Parse(main);
    if (parsed) {
      if (has_mirror_ && (mirror.size() < parsed->bytes ||
                          std::memcmp(main.data(), mirror.data(), parsed->bytes) != 0)) {
        scan_.mirror_differs = true;
      }
      return parsed;
    }
    if (scan_.error != 0 || MutantOn(Mutant::kDamagedRecordEndsReplay)) return parsed;
    if (parsed = Parse(mirror); parsed) {
      ++scan_.from_mirror;
      return parsed;
    }
    for (const auto& bytes : {main, mirror}) {
      const auto record = CorrectRecord(bytes, seed_, &budget_);
      if (record) parsed = Parse(*record);
      if (!parsed) continue;
      ++scan_.corrected;
      return parsed;
    }
    return parsed;
  }

  // Finds the next complete record in either file.
  std::optional<Bytes> NextWhole() {
    for (Bytes at = scan_.good + 1;; ++at) {
      const auto main = main_.From(at);
      scan_.error = main_.error();
      const auto mirror = mirror_.From(at);
      if (scan_.error != 0 || (main.empty() && mirror.empty())) return std::nullopt;
      if (MayBeRecord(main) && Parse(main)) return at;
      if (MayBeRecord(mirror) && Parse(mirror)) return at;
    }
  }

  Window main_;
  Window mirror_;
  const bool has_mirror_;
  const std::uint64_t seed_;
  Bytes budget_ = kCorrectionBudget;
  JournalScan scan_;
};

}  // namespace

JournalScan ScanJournal(Files& files, int file, int mirror, const JournalHeader& header,
                        JournalVisitor* visitor) {
  return Scanner(files, file, mirror, header).Run(visitor);
}

std::optional<std::vector<std::byte>> ReadRecord(Files& files, int file, int mirror, Bytes at,
                                                 std::uint32_t bytes, std::uint64_t sequence,
                                                 std::uint64_t seed) {
  const auto is_it = [&](std::span<const std::byte> record) {
    const auto parsed = ParseRecord(record, seed);
    return parsed && parsed->bytes == bytes && parsed->record.sequence == sequence;
  };
  std::vector<std::vector<std::byte>> damaged;
  for (const int from : {file, mirror}) {
    std::vector<std::byte> record(bytes);
    if (from < 0 || ReadFully(files, from, at, record.data(), bytes) != 0) continue;
    if (is_it(record)) return record;
    damaged.push_back(std::move(record));
  }
  Bytes budget = kCorrectionBudget;
  for (const auto& record : damaged) {
    auto corrected = CorrectRecord(record, seed, &budget);
    if (corrected && is_it(*corrected)) return corrected;
  }
  return std::nullopt;
}

}  // namespace spillway
