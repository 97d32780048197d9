// SPDX-License-Identifier: Apache-2.0
#include "tier/disk/uring.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace spillway {
namespace {

bool KnowsReadAndWrite(io_uring* ring) {
  io_uring_probe* probe = io_uring_get_probe_ring(ring);
  if (probe == nullptr) return false;
  const bool knows = io_uring_opcode_supported(probe, IORING_OP_READ) != 0 &&
                     io_uring_opcode_supported(probe, IORING_OP_WRITE) != 0;
  io_uring_free_probe(probe);
  return knows;
}

}  // namespace

std::unique_ptr<Ring> Ring::Create() {
  std::unique_ptr<Ring> ring(new Ring);
  if (io_uring_queue_init(Files::kDepth, &ring->ring_, 0) != 0) {
    ring->ring_.ring_fd = -1;
    return nullptr;
  }
  if (!KnowsReadAndWrite(&ring->ring_)) return nullptr;
  for (std::size_t slot = 0; slot < Files::kDepth; ++slot) ring->idle_.push_back(slot);
  ring->completed_.reserve(Files::kDepth);
  return ring;
}

Ring::~Ring() {
  if (ring_.ring_fd >= 0) io_uring_queue_exit(&ring_);
}

void Ring::Start(std::size_t slot) {
  // One call moves at most 2 GiB less a page; the rest gets an entry of its own.
  constexpr Bytes kOnceMax = kGiB;
  const Flight& flight = flights_[slot];
  const Io& io = flight.io;
  // Always available: there are as many entries as slots.
  io_uring_sqe* entry = io_uring_get_sqe(&ring_);
  const auto bytes = static_cast<unsigned>(std::min(io.bytes - flight.done, kOnceMax));
  if (io.write) {
    io_uring_prep_write(entry, io.file, io.data + flight.done, bytes, io.at + flight.done);
  } else {
    io_uring_prep_read(entry, io.file, io.data + flight.done, bytes, io.at + flight.done);
  }
  io_uring_sqe_set_data64(entry, slot);
}

void Ring::Landed(std::size_t slot, int result) {
  Flight& flight = flights_[slot];
  if (result > 0) flight.done += static_cast<Bytes>(result);
  const bool again = result == -EINTR || result == -EAGAIN;
  if (again || (result > 0 && flight.done < flight.io.bytes)) {
    Start(slot);
    return;
  }
  completed_.push_back({flight.io, result < 0 ? result : static_cast<std::int64_t>(flight.done)});
  idle_.push_back(slot);
}

void Ring::Submit(unsigned wait_for) {
  const int submitted = io_uring_submit_and_wait(&ring_, wait_for);
  if (submitted < 0 && submitted != -EINTR && submitted != -EAGAIN && submitted != -EBUSY) {
    // The kernel may still write into our buffers, so there is no way to continue.
    std::fprintf(stderr, "io_uring: %s\n", std::strerror(-submitted));
    std::abort();
  }
}

void Ring::Collect() {
  io_uring_cqe* entry = nullptr;
  while (io_uring_peek_cqe(&ring_, &entry) == 0) {
    const auto slot = static_cast<std::size_t>(io_uring_cqe_get_data64(entry));
    const int result = entry->res;
    io_uring_cqe_seen(&ring_, entry);
    Landed(slot, result);
  }
}

bool Ring::Refill(IoFeed& feed) {
  while (!idle_.empty()) {
    Flight& flight = flights_[idle_.back()];
    flight = {};
    if (!feed.Next(&flight.io)) return false;
    Start(idle_.back());
    idle_.pop_back();
  }
  return true;
}

// Submits the next operations before the feed sees those that have finished: a
// feed hashes the data it gets, and the disk should work meanwhile.
void Ring::Run(IoFeed& feed) {
  bool more = true;
  for (;;) {
    more = more && Refill(feed);
    const bool flying = idle_.size() < Files::kDepth;
    if (!flying && completed_.empty()) return;
    if (flying) Submit(completed_.empty() ? 1 : 0);
    for (const Completed& destination : completed_) feed.Done(destination.io, destination.result);
    completed_.clear();
    Collect();
  }
}

}  // namespace spillway
