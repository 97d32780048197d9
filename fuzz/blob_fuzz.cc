// SPDX-License-Identifier: Apache-2.0
// Damaged files of the disk tier: headers of blobs and of journals, records, whole journals with
// their mirrors. Checksums are corrected, so that the code behind them is reached. For any bytes:
// no crash, no read beyond the end, and whatever was parsed is written again as the same bytes.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tier/blob.h"
#include "tier/disk/blob_header.h"
#include "tier/disk/journal_format.h"
#include "tier/disk/journal_scan.h"

using namespace spillway;

namespace {

using Data = std::span<const std::byte>;

void Require(bool holds) {
  if (!holds) std::abort();
}

// Whole pages, with the right checksum at the end.
void TryBlobHeader(Data data, bool with_checksum) {
  constexpr std::size_t kChecksumBytes = sizeof(Hash128);
  std::vector<std::byte> pages(PagesUp(std::max<Bytes>(data.size() + kChecksumBytes, 1)));
  std::memcpy(pages.data(), data.data(), data.size());
  Hash128 checksum{};
  if (with_checksum) {
    checksum = Hash128Of(pages.data(), pages.size() - kChecksumBytes);
    std::memcpy(pages.data() + pages.size() - kChecksumBytes, &checksum.low, sizeof checksum.low);
    std::memcpy(pages.data() + pages.size() - sizeof checksum.high, &checksum.high,
                sizeof checksum.high);
  }
  const Result<BlobHeader> header = DecodeHeader(pages, checksum);
  if (!header) return Require(header.error().code == Code::kCorrupt);
  if (HeaderBytes(header->facts) != pages.size()) return;  // It has more padding than necessary.
  std::vector<std::byte> again(pages.size());
  EncodeHeader(*header, again);
  const Result<BlobHeader> same = DecodeHeader(again, EncodeHeader(*header, again));
  Require(same && same->at == header->at && same->store == header->store &&
          same->facts.key == header->facts.key && same->facts.size == header->facts.size &&
          same->facts.meta == header->facts.meta && same->facts.agent == header->facts.agent);
}

void TryJournalHeader(Data data) {
  const auto header = DecodeJournalHeader(data);
  if (!header || !*header) return;
  const std::vector<std::byte> again = Encode(**header);
  Require(again.size() <= data.size() && std::equal(again.begin(), again.end(), data.begin()));
}

// `data` is a record without its checksum; its length is corrected.
void TryRecord(Data data, std::uint64_t seed, bool whole) {
  if (data.size() < sizeof(std::uint32_t)) return;
  std::vector<std::byte> record(data.begin(), data.end());
  if (whole) Finish(seed, &record);
  const std::vector<std::byte> kept = record;
  record.insert(record.end(), 64, std::byte{0x5a});  // Nothing after the record may be read.
  const auto parsed = ParseRecord(record, seed);
  if (!parsed) return;
  Require(parsed->bytes <= kept.size());
  std::vector<std::byte> again;
  if (parsed->record.put) {
    again = EncodePut(parsed->record.sequence, *parsed->record.put);
  } else if (parsed->record.deleted) {
    again = EncodeDelete(parsed->record.sequence, *parsed->record.deleted);
  } else if (parsed->record.deadline) {
    again.resize(kDeadlineBytes);
    EncodeDeadline(parsed->record.sequence, *parsed->record.deadline, seed,
                   std::span<std::byte, kDeadlineBytes>(again));
    return Require(parsed->bytes == kDeadlineBytes &&
                   std::equal(again.begin(), again.end(), kept.begin()));
  } else {
    return;
  }
  Finish(seed, &again);
  Require(again.size() == parsed->bytes && std::equal(again.begin(), again.end(), kept.begin()));
}

// A file of bytes that can only be read.
class OneFile final : public Files {
 public:
  explicit OneFile(std::vector<std::byte> main, std::vector<std::byte> mirror)
      : content_{std::move(main), std::move(mirror)} {}

  std::int64_t ReadAt(int file, Bytes at, void* data, Bytes bytes) override {
    const std::vector<std::byte>& from = content_[file == 0 ? 0 : 1];
    if (at >= from.size()) return 0;
    const Bytes count = std::min<Bytes>(bytes, from.size() - at);
    std::memcpy(data, from.data() + at, count);
    return static_cast<std::int64_t>(count);
  }
  int Stat(const std::string&, FileFacts*) override { return 0; }
  int MakeDirectory(const std::string&) override { return 0; }
  int List(const std::string&, std::vector<std::string>*) override { return 0; }
  int FreeSpace(const std::string&, SpaceFacts*) override { return 0; }
  int Rename(const std::string&, const std::string&) override { return 0; }
  int Remove(const std::string&) override { return 0; }
  int SyncDirectory(const std::string&) override { return 0; }
  int Open(const std::string&, OpenHow, bool*) override { return 0; }
  void Close(int) override {}
  int Lock(int) override { return 0; }
  int StatFile(int, FileFacts*) override { return 0; }
  std::int64_t WriteAt(int, Bytes, const void*, Bytes) override { return 0; }
  int Sync(int) override { return 0; }
  int Allocate(int, Bytes, Bytes) override { return 0; }
  int Punch(int, Bytes, Bytes) override { return 0; }
  int Truncate(int, Bytes) override { return 0; }
  void Random(void*, Bytes) override {}

 private:
  std::array<std::vector<std::byte>, 2> content_;
};

// A journal of records, damaged by `data`, which is a list of: position (2 bytes; the highest bit
// selects the mirror), one byte. Everything found must be one of the records written, in order, and
// no more.
void TryScan(Data data) {
  constexpr std::uint64_t kRecords = 40;
  JournalHeader header;
  header.store = {1, 2};
  std::vector<std::byte> journal = Encode(header);
  for (std::uint64_t i = 1; i <= kRecords; ++i) {
    std::vector<std::byte> record;
    if (i % 3 == 0) {
      record.resize(kDeadlineBytes);
      EncodeDeadline(i, {i - 1, 5}, header.Seed(), std::span<std::byte, kDeadlineBytes>(record));
    } else {
      record = EncodeDelete(i, 1000 + i);
      Finish(header.Seed(), &record);
    }
    journal.insert(journal.end(), record.begin(), record.end());
  }
  std::vector<std::byte> mirror = journal;
  for (std::size_t at = 0; at + 3 <= data.size(); at += 3) {
    const auto high = static_cast<std::size_t>(data[at]);
    const std::size_t where = ((high & 0x7f) << 8U | static_cast<std::size_t>(data[at + 1]));
    std::vector<std::byte>& to = (high & 0x80) != 0 ? mirror : journal;
    to[where % to.size()] = data[at + 2];
  }
  class Judge final : public JournalVisitor {
   public:
    bool Record(JournalRecord&& record, Bytes, std::uint32_t bytes) override {
      Require(record.sequence > last_ && record.sequence <= kRecords);
      last_ = record.sequence;
      Require(last_ % 3 == 0
                  ? record.deadline && record.deadline->put == last_ - 1 && bytes == kDeadlineBytes
                  : record.deleted == 1000 + last_ && bytes == kDeleteBytes);
      return true;
    }

   private:
    std::uint64_t last_ = 0;
  };
  OneFile files(std::move(journal), std::move(mirror));
  Judge judge;
  const JournalScan scan = ScanJournal(files, 0, 1, header, &judge);
  Require(scan.error == 0 && scan.last_sequence <= kRecords);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  if (size < 2) return 0;
  const Data data(reinterpret_cast<const std::byte*>(bytes) + 2, size - 2);
  const std::uint64_t seed = bytes[1];
  switch (bytes[0] % 6) {
    case 0:
      TryBlobHeader(data, true);
      break;
    case 1:
      TryBlobHeader(data, false);
      break;
    case 2:
      TryJournalHeader(data);
      break;
    case 3:
      TryRecord(data, seed, true);
      break;
    case 4:
      TryScan(data);
      break;
    default:
      TryRecord(data, seed, false);
  }
  return 0;
}

// Starts from valid bytes: few inputs would contain a magic number by chance.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  BlobFacts facts;
  facts.key = "key";
  facts.size = 100;
  std::vector<std::byte> record = EncodePut(7, {.extent = {}, .header = {}, .facts = facts});
  Finish(3, &record);
  Require(ParseRecord(record, 3).has_value());
  Require(!ParseRecord(record, 4).has_value());
  return 0;
}
