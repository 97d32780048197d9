// SPDX-License-Identifier: Apache-2.0
// A Link over a socket, on the thread of its event loop.
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>

#include "server/link.h"
#include "server/loop.h"

namespace spillway::server {

class AsioLink final : public Link {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;

  AsioLink(Loop* loop, Socket socket);

  std::ptrdiff_t Receive(std::span<iovec> into) override;
  std::ptrdiff_t Send(std::span<iovec> pieces) override;
  void AwaitReadable() override;
  void AwaitWritable() override;
  void Close() override;
  int descriptor() const override { return descriptor_; }
  Peer peer() const override;
  void StartTimer(Duration delay) override;
  void CancelTimer() override { timer_.cancel(); }
  std::span<char> scratch() override { return loop_->scratch; }
  void Post(std::function<void()> work) override;
  void FlushSoon() override;

 private:
  Loop* const loop_;
  Socket socket_;
  const int descriptor_;
  boost::asio::steady_timer timer_;
};

}  // namespace spillway::server
