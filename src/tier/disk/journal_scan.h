// SPDX-License-Identifier: Apache-2.0
// Reads a journal from the end of its header. A damaged record does not end the
// scan: the record is taken from the mirror, or one flipped bit in it is
// corrected, or it is skipped and the scan goes on at the next complete record.
//
// The mirror has the same bytes at the same offsets, as far as it goes: it only
// gets bytes that the journal has taken.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tier/disk/files.h"
#include "tier/disk/journal_format.h"

namespace spillway {

// Receives the records in the order of the file.
class JournalVisitor {
 public:
  virtual ~JournalVisitor() = default;
  // Returns whether to go on.
  virtual bool Record(JournalRecord&& record, Bytes at, std::uint32_t bytes) = 0;
  // A page was filled up here; this much of the file was on stable storage before.
  virtual void Padding(Bytes /*synced_bytes*/) {}
  // These bytes can be read in neither file; complete records follow.
  virtual void Gap(Bytes /*at*/, Bytes /*bytes*/) {}
};

// The result of a scan.
struct JournalScan {
  int error = 0;      // Errno of a failed read: the scan is incomplete.
  Bytes good = 0;     // End of the last complete record.
  bool torn = false;  // Bytes follow that are not a record.
  std::uint64_t last_sequence = 0;
  std::uint64_t from_mirror = 0;  // Damaged records that were complete in the mirror.
  std::uint64_t corrected = 0;    // Records with one flipped bit, damaged in both.
  std::uint64_t gaps = 0;         // Ranges that could not be read,
  Bytes gap_bytes = 0;            // and their bytes.
  bool mirror_differs = false;    // The mirror is incomplete or damaged itself.
  // Whether the journal has any damage.
  bool is_damaged() const { return torn || from_mirror + corrected + gaps > 0; }
};
// `mirror` may be -1: there is none.
JournalScan ScanJournal(Files& files, int file, int mirror, const JournalHeader& header,
                        JournalVisitor* visitor);

// Returns the bytes of the record with this sequence, corrected if necessary;
// empty: it can no longer be read.
std::optional<std::vector<std::byte>> ReadRecord(Files& files, int file, int mirror, Bytes at,
                                                 std::uint32_t bytes, std::uint64_t sequence,
                                                 std::uint64_t seed);

}  // namespace spillway
