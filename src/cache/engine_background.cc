// SPDX-License-Identifier: Apache-2.0
// Background work: copies down ahead of need, brings up what is read often, verifies
// what is on disk.
#include <algorithm>
#include <memory>
#include <utility>

#include "cache/engine.h"

namespace spillway {

void Engine::RunBackground(TimePoint now) {
  if (single() || closed_) return;
  SyncGraph(now);
  if (graph_ != nullptr) PrefetchAhead(now);
  for (TierState* tier = top_; tier != nullptr; tier = tier->below) WriteBack(*tier, now);
  Promote(now);
  Scrub(now);
}

void Engine::NoteCandidate(std::uint32_t slot) {
  LowerCopies& below = store_->LowerCopiesOf(slot);
  below.accesses = LeaseWord::AcquiresOf(store_->slots().slot(slot).word.Load());
  if (candidates_.size() < kCandidatesMax) candidates_.push_back(store_->IdOf(slot));
}

// Brings up entries that were read repeatedly from below: one read is not enough.
void Engine::Promote(TimePoint now) {
  // To a GPU only entries come up that a get or a graph wants there.
  if (top_->id != TierId::kDevice || candidates_.empty() || store_->on_gpu()) return;
  const std::size_t most = std::min<std::size_t>(candidates_.size(), 64);
  for (std::size_t i = 0; i < most; ++i) {
    const EntryId id = candidates_.front();
    candidates_.erase(candidates_.begin());
    if (!store_->IsLive(id)) continue;
    const Record& record = store_->slots().record(id.slot);
    if (Has(record.copies, TierId::kDevice) || record.below == nullptr) continue;
    const std::uint64_t reads =
        LeaseWord::AcquiresOf(store_->slots().slot(id.slot).word.Load()) - record.below->accesses;
    if (reads >= 2 && Has(record.copies, TierId::kHost) && record.below->transfer == nullptr) {
      if (BringToDevice(id.slot, Priority::kPrefetch, now)) continue;
    }
    candidates_.push_back(id);  // Another time.
  }
}

void Engine::Scrub(TimePoint now) {
  const std::optional<Duration>& every = settings_.options.scrub_every;
  if (!every || bottom_->id != TierId::kDisk || loading_) return;
  const std::size_t blobs = store_->entries(TierId::kDisk);
  if (blobs == 0 || now - scrubbed_at_ < *every / static_cast<Duration::rep>(blobs)) return;
  if (transfer_queue_->Waiting(TierId::kDisk, TierId::kDisk) > 0) return;
  for (int looks = 0; looks < 256; ++looks) {
    if (scrub_at_ >= store_->slots().high_water()) scrub_at_ = 0;
    const std::uint32_t slot = scrub_at_++;
    const Record& record = store_->slots().record(slot);
    if (!Has(record.copies, TierId::kDisk) || record.below->transfer != nullptr ||
        !store_->IsLive(store_->IdOf(slot))) {
      continue;
    }
    auto transfer = std::make_unique<Transfer>();
    transfer->from = transfer->to = TierId::kDisk;
    transfer->priority = Priority::kScrub;
    scrubbed_at_ = now;
    StartTransfer(std::move(transfer), slot);
    return;
  }
}

}  // namespace spillway
