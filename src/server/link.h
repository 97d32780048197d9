// SPDX-License-Identifier: Apache-2.0
// A Link is the environment of a connection: its socket, its timer and its thread. The daemon's
// links are sockets on an event loop (asio_link.h). The links of the server simulator are queues on
// a virtual clock, so that the same connection code runs there, one seeded event after another.
//
// All calls and callbacks are on the link's thread, except Post. No call blocks.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "spillway/units.h"

namespace spillway::server {

class Connection;

class Link {
 public:
  virtual ~Link() = default;

  // --- the socket ---

  // As recvmsg and sendmsg of a socket that never blocks: bytes moved, 0 at the
  // end of the stream, or -errno (-EAGAIN: nothing can be moved now).
  virtual std::ptrdiff_t Receive(std::span<iovec> into) = 0;
  virtual std::ptrdiff_t Send(std::span<iovec> pieces) = 0;
  // Calls Connection::OnReadable or OnWritable once, when that may succeed. At
  // most one of each is outstanding.
  virtual void AwaitReadable() = 0;
  virtual void AwaitWritable() = 0;
  // Closes the socket, cancels the timer and drops the reference to the connection, which may be
  // destroyed when the last callback has returned.
  virtual void Close() = 0;
  virtual int descriptor() const { return -1; }  // For CLIENT LIST.
  // Whether the client is still connected, without a read. kHalfClosed: the client sends no more;
  // it may still read replies, or it may have exited.
  enum class Peer : std::uint8_t { kThere, kHalfClosed, kGone };
  virtual Peer peer() const { return Peer::kThere; }

  // --- the timer ---

  // Calls Connection::OnTimer after `delay`. There is one timer: a second call restarts it.
  virtual void StartTimer(Duration delay) = 0;
  virtual void CancelTimer() = 0;

  // --- the thread ---

  // A buffer to read into, shared by all connections of the thread.
  virtual std::span<char> scratch() = 0;
  // Runs `work` on the link's thread. From any thread.
  virtual void Post(std::function<void()> work) = 0;
  // Calls Connection::FlushNow once all requests that are ready have been served.
  virtual void FlushSoon() = 0;

 protected:
  friend class Connection;
  // The connection that owns this link; set before Start.
  Connection* connection_ = nullptr;
};

}  // namespace spillway::server
