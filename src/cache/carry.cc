// The work of a transfer: copies, checksums, files. No state of the cache.
#include <algorithm>

#include <fmt/format.h>

#include "base/mutant.h"
#include "base/printable.h"
#include "cache/move.h"

namespace spillway {

namespace {

Error Damaged(const Move& transfer, std::size_t piece) {
  return {Code::kCorrupt,
          fmt::format("'{}': piece {} of {} bytes was damaged between the {} and the {} tier",
                      Printable(transfer.facts.key), piece, transfer.bytes, Name(transfer.from),
                      Name(transfer.to))};
}

Status ToMemory(const Ways& ways, Move* transfer) {
  Tier* const tier = transfer->to == TierId::kDevice ? ways.device : ways.host;
  if (!transfer->seal) transfer->seal = Seal::Of(Source(transfer->source, transfer->bytes));
  // Bit by bit, so that it can be called off.
  for (Bytes at = 0; at < transfer->bytes; at += Seal::kPieceBytes) {
    if (transfer->cancelled.load(std::memory_order_relaxed)) {
      return Error{Code::kCancelled, "the move was called off"};
    }
    const Bytes bytes = std::min(Seal::kPieceBytes, transfer->bytes - at);
    Status written =
        tier->Write(transfer->landing.block + at, Source(transfer->source + at, bytes));
    if (!written) return written;
  }
  if (MutantOn(Mutant::kTornMoveCommitted)) return {};
  const auto damaged = transfer->seal->FirstDamaged(transfer->landing.block, transfer->bytes);
  if (!damaged) return {};
  transfer->source_damaged =
      transfer->seal->FirstDamaged(transfer->source, transfer->bytes).has_value();
  return Damaged(*transfer, *damaged);
}

// From a device that only it can read. What has arrived is the first that
// stands in host memory: its seal is made of that, and compared if there was one.
Status FromDevice(const Ways& ways, Move* transfer) {
  std::byte* const to = transfer->landing.block;
  const auto copy = [&]() -> Result<Seal> {
    SealCrew::Job job(ways.crew, to, transfer->bytes);
    const Status copied =
        ways.device->ReadToHost(transfer->source, transfer->bytes, to, [&](Bytes arrived) {
          job.Arrived(arrived);
          return !transfer->cancelled.load(std::memory_order_relaxed);
        });
    if (!copied) return copied.error();
    return job.Finish();
  };
  for (int attempt = 0;; ++attempt) {
    Result<Seal> seal = copy();
    if (!seal) return seal.error();
    if (!transfer->seal || *transfer->seal == *seal) {
      transfer->seal = std::move(*seal);
      return {};
    }
    if (attempt > 0) {
      transfer->source_damaged = true;
      return Damaged(*transfer, 0);
    }
  }
}

Seal SealOnHost(const Ways& ways, const Move& transfer) {
  return SealCrew::Job(ways.crew, transfer.source, transfer.bytes).Finish();
}

Status WriteToDevice(const Ways& ways, const Move& transfer, std::vector<Hash128>* hashes) {
  return ways.device->WriteFromHost(
      transfer.landing.block, transfer.source, transfer.bytes,
      [&](Bytes) { return !transfer.cancelled.load(std::memory_order_relaxed); }, hashes);
}

// What the device made of what has arrived, and the host of the last piece,
// which is not whole. Empty: the device could not.
std::optional<Seal> SealOfBoth(const Move& transfer, std::vector<Hash128> hashes) {
  const Bytes whole = transfer.bytes / Seal::kPieceBytes;
  if (hashes.size() != whole) return {};
  const Bytes at = whole * Seal::kPieceBytes;
  if (at < transfer.bytes) {
    hashes.push_back(Hash128Of(transfer.source + at, transfer.bytes - at));
  }
  return Seal(std::move(hashes));
}

// To such a device. What has arrived is verified there, which costs neither cores
// nor the host's memory its pace; damage is looked for in the source afterwards.
Status VerifiedThere(const Ways& ways, Move* transfer) {
  for (int attempt = 0;; ++attempt) {
    std::vector<Hash128> hashes;
    if (Status written = WriteToDevice(ways, *transfer, &hashes); !written) return written;
    const std::optional<Seal> there = SealOfBoth(*transfer, std::move(hashes));
    if (there == transfer->seal) return {};
    if (SealOnHost(ways, *transfer) != *transfer->seal) {
      transfer->source_damaged = true;
      return Damaged(*transfer, 0);
    }
    if (!there) return {};  // As good as when the host verifies from the start.
    if (attempt > 0) return Damaged(*transfer, 0);
  }
}

// The host's copy is verified while it travels. What the link did to it is the
// link's own checksums' to say.
Status VerifiedHere(const Ways& ways, Move* transfer) {
  // Hashing goes as fast as it can: kept at the link's pace, it slows the link
  // down (44 instead of 52 GB/s on an H200).
  SealCrew::Job job(ways.crew, transfer->source, transfer->bytes);
  job.Arrived(transfer->bytes);
  if (Status written = WriteToDevice(ways, *transfer, nullptr); !written) return written;
  Seal seal = job.Finish();
  if (!transfer->seal) {
    transfer->seal = std::move(seal);
  } else if (*transfer->seal != seal) {
    transfer->source_damaged = true;
    return Damaged(*transfer, 0);
  }
  return {};
}

Status ToDevice(const Ways& ways, Move* transfer) {
  const bool there =
      transfer->seal && transfer->bytes >= Seal::kPieceBytes && ways.device->makes_hashes();
  return there ? VerifiedThere(ways, transfer) : VerifiedHere(ways, transfer);
}

Status ToDisk(const Ways& ways, Move* transfer) {
  const Source source(transfer->source, transfer->bytes);
  if (!transfer->seal) transfer->seal.emplace();  // Made on the way.
  const BlobId blob = transfer->landing.blob;
  const Status written =
      ways.disk->Write(blob, transfer->facts, &*transfer->seal, source, &transfer->cancelled);
  if (!written || !transfer->read_back) return written;
  Status verified = ways.disk->Read(blob, transfer->facts, nullptr, nullptr, &transfer->cancelled);
  if (!verified && verified.error().code == Code::kCorrupt) {
    transfer->source_damaged =
        transfer->seal->FirstDamaged(transfer->source, transfer->bytes).has_value();
  }
  return verified;
}

}  // namespace

void Carry(const Ways& ways, Move* transfer) {
  if (transfer->cancelled.load(std::memory_order_relaxed)) {
    transfer->status = Error{Code::kCancelled, "the move was called off"};
  } else if (transfer->from == TierId::kDisk) {
    Seal seal;
    std::byte* const to = transfer->to == TierId::kDisk ? nullptr : transfer->landing.block;
    transfer->status =
        ways.disk->Read(transfer->blob, transfer->facts, to, &seal, &transfer->cancelled);
    if (MutantOn(Mutant::kCorruptBlobServed) && !transfer->status) transfer->status = {};
    if (transfer->status) transfer->seal = std::move(seal);
  } else if (transfer->to == TierId::kDisk) {
    transfer->status = ToDisk(ways, transfer);
  } else if (ways.crew != nullptr) {
    transfer->status =
        transfer->from == TierId::kDevice ? FromDevice(ways, transfer) : ToDevice(ways, transfer);
  } else {
    transfer->status = ToMemory(ways, transfer);
  }
}

}  // namespace spillway
