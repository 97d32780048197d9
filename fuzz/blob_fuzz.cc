// Bytes of the disk tier's files as no disk would give them back: headers of blobs
// and of journals, records. Checksums are made to fit, so that what is behind them
// is reached. Whatever they say: no crash, nothing read beyond the end, and what was
// understood is written down again as the same bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "tier/blob.h"
#include "tier/disk/blob_header.h"
#include "tier/disk/journal_format.h"

using namespace spillway;

namespace {

using Data = std::span<const std::byte>;

void Require(bool holds) {
  if (!holds) std::abort();
}

// Whole pages, with the checksum at the end that belongs there.
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
  if (HeaderBytes(header->facts) != pages.size()) return;  // More padding than there need be.
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

// `data` is a record without its checksum; its length is made right.
void TryRecord(Data data, std::uint64_t seed, bool whole) {
  if (data.size() < sizeof(std::uint32_t)) return;
  std::vector<std::byte> record(data.begin(), data.end());
  if (whole) Finish(seed, &record);
  const std::vector<std::byte> kept = record;
  record.insert(record.end(), 64, std::byte{0x5a});  // Of what follows nothing may be read.
  const auto parsed = ParseRecord(record, seed);
  if (!parsed) return;
  Require(parsed->bytes <= kept.size());
  std::vector<std::byte> again;
  if (parsed->record.put) {
    again = EncodePut(parsed->record.sequence, *parsed->record.put);
  } else if (parsed->record.deleted) {
    again = EncodeDelete(parsed->record.sequence, *parsed->record.deleted);
  } else {
    return;
  }
  Finish(seed, &again);
  Require(again.size() == parsed->bytes && std::equal(again.begin(), again.end(), kept.begin()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  if (size < 2) return 0;
  const Data data(reinterpret_cast<const std::byte*>(bytes) + 2, size - 2);
  const std::uint64_t seed = bytes[1];
  switch (bytes[0] % 5) {
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
    default:
      TryRecord(data, seed, false);
  }
  return 0;
}

// Starts from what is right: few inputs would ever say a magic number by chance.
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
