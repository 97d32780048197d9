// SPDX-License-Identifier: Apache-2.0
#include "serversim/net.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace spillway::serversim {

class Net::SimLink final : public server::Link {
 public:
  SimLink(Net* net, std::shared_ptr<Wire> wire) : net_(*net), wire_(std::move(wire)) {}

  std::ptrdiff_t Receive(std::span<iovec> into) override {
    if (wire_->to_server.empty()) return wire_->client_gone ? 0 : -EAGAIN;
    const std::size_t there = AtMost(wire_->to_server.size(), net_.shape_.read_max);
    std::size_t done = 0;
    for (const iovec& piece : into) {
      const std::size_t bytes = std::min(piece.iov_len, there - done);
      std::memcpy(piece.iov_base, wire_->to_server.data() + done, bytes);
      done += bytes;
    }
    wire_->to_server.erase(0, done);
    return static_cast<std::ptrdiff_t>(done);
  }

  std::ptrdiff_t Send(std::span<iovec> pieces) override {
    if (wire_->client_gone) return -EPIPE;
    if (FreeBytes() == 0) return -EAGAIN;
    const std::size_t room = AtMost(FreeBytes(), net_.shape_.socket_bytes);
    std::size_t done = 0;
    for (const iovec& piece : pieces) {
      const std::size_t bytes = std::min(piece.iov_len, room - done);
      wire_->to_client.append(static_cast<const char*>(piece.iov_base), bytes);
      wire_->log.append(static_cast<const char*>(piece.iov_base), bytes);
      done += bytes;
      if (done == room) break;
    }
    wire_->sent += done;
    return static_cast<std::ptrdiff_t>(done);
  }

  Peer peer() const override { return wire_->client_gone ? Peer::kGone : Peer::kThere; }
  void AwaitReadable() override { awaits_readable = true; }
  void AwaitWritable() override { awaits_writable = true; }

  void Close() override {
    wire_->server_gone = true;
    timer.reset();
    awaits_readable = awaits_writable = flushes = false;
    const auto at = std::ranges::find(net_.links_, this);
    if (at == net_.links_.end()) return;
    net_.connections_.erase(net_.connections_.begin() + (at - net_.links_.begin()));
    net_.links_.erase(at);
  }

  void StartTimer(Duration delay) override { timer = net_.clock_.Now() + delay; }
  void CancelTimer() override { timer.reset(); }
  std::span<char> scratch() override { return net_.scratch_; }
  void Post(std::function<void()> work) override {
    net_.posts_.push_back({std::move(work), net_.clock_.Now()});
  }
  void FlushSoon() override { flushes = true; }

  std::size_t FreeBytes() const {
    if (net_.shape_.whole) return std::size_t{1} << 40;
    return net_.shape_.socket_bytes - std::min(net_.shape_.socket_bytes, wire_->to_client.size());
  }
  bool IsReadable() const {
    return awaits_readable && (!wire_->to_server.empty() || wire_->client_gone);
  }
  bool IsWritable() const { return awaits_writable && (FreeBytes() > 0 || wire_->client_gone); }

  void Run(What what) {
    const auto self = connection_->shared_from_this();
    switch (what) {
      case What::kReadable:
        awaits_readable = false;
        return self->OnReadable(false);
      case What::kWritable:
        awaits_writable = false;
        return self->OnWritable(false);
      case What::kTimer:
        timer.reset();
        return self->OnTimer();
      case What::kFlush:
        flushes = false;
        return self->FlushNow();
    }
  }

  std::optional<TimePoint> timer;
  bool awaits_readable = false;
  bool awaits_writable = false;
  bool flushes = false;

 private:
  // All that is there, or a part of it.
  std::size_t AtMost(std::size_t there, Bytes most) {
    const std::uint64_t part = net_.rng_.LogBetween(1, most);
    return net_.shape_.whole ? there : std::min<std::size_t>(there, part);
  }

  Net& net_;
  const std::shared_ptr<Wire> wire_;
};

std::unique_ptr<server::Link> Net::MakeLink(std::shared_ptr<Wire> wire) {
  auto link = std::make_unique<SimLink>(this, std::move(wire));
  links_.push_back(link.get());
  return link;
}

void Net::Add(std::shared_ptr<server::Connection> connection) {
  connections_.push_back(std::move(connection));
}

std::vector<Net::Ready> Net::ReadyLinks() const {
  std::vector<Ready> ready;
  for (SimLink* const link : links_) {
    if (link->IsReadable()) ready.push_back({link, What::kReadable});
    if (link->IsWritable()) ready.push_back({link, What::kWritable});
    if (link->timer && *link->timer <= clock_.Now()) ready.push_back({link, What::kTimer});
    if (link->flushes) ready.push_back({link, What::kFlush});
  }
  return ready;
}

std::size_t Net::ready() const { return ReadyLinks().size() + (posts_.empty() ? 0 : 1); }

void Net::RunReady(std::size_t at) {
  const std::vector<Ready> ready = ReadyLinks();
  if (at < ready.size()) return ready[at].link->Run(ready[at].what);
  RunPosted();
}

void Net::RunPosted() {
  const std::function<void()> work = std::move(posts_.front().work);
  posts_.pop_front();
  work();
}

bool Net::RunOverdue(TimePoint then) {
  SimLink* first = nullptr;
  for (SimLink* const link : links_) {
    const bool due = link->timer && *link->timer < then;
    if (due && (first == nullptr || *link->timer < *first->timer)) first = link;
  }
  if (first != nullptr) {
    first->Run(What::kTimer);
  } else if (!posts_.empty() && posts_.front().since < then) {
    RunPosted();
  } else {
    return false;
  }
  return true;
}

std::optional<TimePoint> Net::next_timer() const {
  std::optional<TimePoint> next;
  for (const SimLink* const link : links_) {
    if (link->timer && (!next || *link->timer < *next)) next = link->timer;
  }
  return next;
}

void Net::DropAll() {
  while (!connections_.empty()) connections_.back()->Drop();
  while (!posts_.empty()) RunPosted();
}

}  // namespace spillway::serversim
