// SPDX-License-Identifier: Apache-2.0
// The work of a transfer: copies, checksums, files. Touches no state of the cache.
#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "base/mutant.h"
#include "base/printable.h"
#include "cache/transfer.h"

namespace spillway {

namespace {

Error Damaged(const Transfer& transfer, std::size_t piece) {
  return {Code::kCorrupt,
          fmt::format("'{}': piece {} of {} bytes was damaged between the {} and the {} tier",
                      Printable(transfer.facts.key), piece, transfer.bytes, Name(transfer.from),
                      Name(transfer.to))};
}

Status ToMemory(const TransferPaths& ways, Transfer* transfer) {
  Tier* const tier = transfer->to == TierId::kDevice ? ways.device : ways.host;
  if (!transfer->seal) transfer->seal = Seal::Of(Source(transfer->source, transfer->bytes));
  // Piece by piece, so that it can be cancelled.
  for (Bytes at = 0; at < transfer->bytes; at += Seal::kPieceBytes) {
    if (transfer->cancelled.load(std::memory_order_relaxed)) {
      return Error{Code::kCancelled, "the transfer was cancelled"};
    }
    const Bytes bytes = std::min(Seal::kPieceBytes, transfer->bytes - at);
    Status written =
        tier->Write(transfer->destination.block + at, Source(transfer->source + at, bytes));
    if (!written) return written;
  }
  if (MutantOn(Mutant::kTornMoveCommitted)) return {};
  const auto damaged = transfer->seal->FirstDamaged(transfer->destination.block, transfer->bytes);
  if (!damaged) return {};
  transfer->source_damaged =
      transfer->seal->FirstDamaged(transfer->source, transfer->bytes).has_value();
  return Damaged(*transfer, *damaged);
}

// From a device whose memory only it can read. These bytes are the first to be in host
// memory: the seal is made of them, and compared with the old one if there is one.
Status FromDevice(const TransferPaths& ways, Transfer* transfer) {
  std::byte* const to = transfer->destination.block;
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

Seal SealOnHost(const TransferPaths& ways, const Transfer& transfer) {
  return SealCrew::Job(ways.crew, transfer.source, transfer.bytes).Finish();
}

Status WriteToDevice(const TransferPaths& ways, const Transfer& transfer,
                     std::vector<Hash128>* hashes) {
  return ways.device->WriteFromHost(
      transfer.destination.block, transfer.source, transfer.bytes,
      [&](Bytes) { return !transfer.cancelled.load(std::memory_order_relaxed); }, hashes);
}

// The device's hashes of what has arrived, and the host's of the last piece, which is
// shorter than the others. Empty: the device could not hash.
std::optional<Seal> SealOfBoth(const Transfer& transfer, std::vector<Hash128> hashes) {
  const Bytes whole = transfer.bytes / Seal::kPieceBytes;
  if (hashes.size() != whole) return {};
  const Bytes at = whole * Seal::kPieceBytes;
  if (at < transfer.bytes) {
    hashes.push_back(Hash128Of(transfer.source + at, transfer.bytes - at));
  }
  return Seal(std::move(hashes));
}

// To such a device. The device verifies what has arrived: that costs no cores and does
// not slow down the host's memory. If hashes differ, the source is checked for damage.
Status VerifiedThere(const TransferPaths& ways, Transfer* transfer) {
  for (int attempt = 0;; ++attempt) {
    std::vector<Hash128> hashes;
    if (Status written = WriteToDevice(ways, *transfer, &hashes); !written) return written;
    const std::optional<Seal> there = SealOfBoth(*transfer, std::move(hashes));
    if (there == transfer->seal) return {};
    if (SealOnHost(ways, *transfer) != *transfer->seal) {
      transfer->source_damaged = true;
      return Damaged(*transfer, 0);
    }
    if (!there) return {};  // As good as VerifiedHere, which checks only the source.
    if (attempt > 0) return Damaged(*transfer, 0);
  }
}

// The source is verified while it travels; against damage on the link there are only
// the link's own checksums.
Status VerifiedHere(const TransferPaths& ways, Transfer* transfer) {
  // Hashing runs as fast as it can: at the pace of the link it slows the link down (44
  // instead of 52 GB/s on an H200).
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

Status ToDevice(const TransferPaths& ways, Transfer* transfer) {
  const bool there =
      transfer->seal && transfer->bytes >= Seal::kPieceBytes && ways.device->makes_hashes();
  return there ? VerifiedThere(ways, transfer) : VerifiedHere(ways, transfer);
}

// What was read back from disk is damaged: checks whether the source was damaged
// before.
void LookForDamage(const Status& verified, Transfer* transfer) {
  if (verified || verified.error().code != Code::kCorrupt) return;
  transfer->source_damaged =
      transfer->seal->FirstDamaged(transfer->source, transfer->bytes).has_value();
}

Status ToDisk(const TransferPaths& ways, Transfer* transfer) {
  const Source source(transfer->source, transfer->bytes);
  if (!transfer->seal) transfer->seal.emplace();  // Computed during the write.
  const BlobId blob = transfer->destination.blob;
  Status written =
      ways.disk->Write(blob, transfer->facts, &*transfer->seal, source, &transfer->cancelled);
  if (!written || !transfer->read_back) return written;
  Status verified = ways.disk->Read(blob, transfer->facts, nullptr, nullptr, &transfer->cancelled);
  LookForDamage(verified, transfer);
  return verified;
}

}  // namespace

void RunTransfer(const TransferPaths& ways, Transfer* transfer) {
  if (transfer->cancelled.load(std::memory_order_relaxed)) {
    transfer->status = Error{Code::kCancelled, "the transfer was cancelled"};
  } else if (transfer->from == TierId::kDisk) {
    Seal seal;
    std::byte* const to = transfer->to == TierId::kDisk ? nullptr : transfer->destination.block;
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

void RunTransferBatch(const TransferPaths& ways, std::span<Transfer* const> transfers) {
  std::vector<BlobWrite> writes;
  std::vector<Transfer*> written;  // By write.
  writes.reserve(transfers.size());
  written.reserve(transfers.size());
  for (Transfer* const transfer : transfers) {
    if (transfer->cancelled.load(std::memory_order_relaxed)) {
      transfer->status = Error{Code::kCancelled, "the transfer was cancelled"};
      continue;
    }
    if (!transfer->seal) transfer->seal.emplace();  // Computed during the write.
    written.push_back(transfer);
    writes.push_back({.id = transfer->destination.blob,
                      .facts = &transfer->facts,
                      .seal = &*transfer->seal,
                      .source = Source(transfer->source, transfer->bytes),
                      .cancelled = &transfer->cancelled});
  }
  ways.disk->WriteBatch(writes);
  // One setting for all of them.
  const bool read_back = !written.empty() && written.front()->read_back;
  std::vector<bool> was_written;
  for (const BlobWrite& write : writes) was_written.push_back(write.status.has_value());
  if (read_back) ways.disk->VerifyBatch(writes);
  for (std::size_t i = 0; i < writes.size(); ++i) {
    if (was_written[i]) LookForDamage(writes[i].status, written[i]);
    written[i]->status = std::move(writes[i].status);
  }
}

}  // namespace spillway
