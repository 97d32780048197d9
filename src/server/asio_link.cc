// SPDX-License-Identifier: Apache-2.0
#include "server/asio_link.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <tuple>
#include <utility>

#include <boost/asio/post.hpp>

#include "server/connection.h"

namespace spillway::server {

namespace {

namespace asio = boost::asio;

msghdr MessageOf(std::span<iovec> pieces) {
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  return message;
}

}  // namespace

AsioLink::AsioLink(Loop* loop, Socket socket)
    : loop_(loop),
      socket_(std::move(socket)),
      descriptor_(socket_.native_handle()),
      timer_(loop->io) {}

std::ptrdiff_t AsioLink::Receive(std::span<iovec> into) {
  msghdr message = MessageOf(into);
  const ssize_t got = recvmsg(descriptor_, &message, MSG_DONTWAIT);
  return got < 0 ? -errno : got;
}

std::ptrdiff_t AsioLink::Send(std::span<iovec> pieces) {
  msghdr message = MessageOf(pieces);
  const ssize_t sent = sendmsg(descriptor_, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  return sent < 0 ? -errno : sent;
}

Link::Peer AsioLink::peer() const {
  pollfd about{.fd = descriptor_, .events = POLLRDHUP, .revents = 0};
  if (poll(&about, 1, 0) <= 0) return Peer::kThere;
  if ((about.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) return Peer::kGone;
  return (about.revents & POLLRDHUP) != 0 ? Peer::kHalfClosed : Peer::kThere;
}

void AsioLink::AwaitReadable() {
  socket_.async_wait(Socket::wait_read, [self = connection_->shared_from_this()](
                                            const boost::system::error_code& error) {
    self->OnReadable(error.failed());
  });
}

void AsioLink::AwaitWritable() {
  socket_.async_wait(Socket::wait_write, [self = connection_->shared_from_this()](
                                             const boost::system::error_code& error) {
    self->OnWritable(error.failed());
  });
}

void AsioLink::Close() {
  boost::system::error_code ignored;
  timer_.cancel();
  std::ignore = socket_.close(ignored);
  loop_->connections.erase(connection_->shared_from_this());
}

void AsioLink::StartTimer(Duration delay) {
  timer_.expires_after(delay);
  timer_.async_wait(
      [self = connection_->shared_from_this()](const boost::system::error_code& error) {
        if (!error) self->OnTimer();
      });
}

void AsioLink::Post(std::function<void()> work) { asio::post(loop_->io, std::move(work)); }

// Sending a reply wakes its client. Sending all replies of a loop together wakes a client with
// several connections once.
void AsioLink::FlushSoon() {
  loop_->to_flush.push_back(connection_->shared_from_this());
  if (loop_->to_flush.size() > 1) return;
  asio::post(loop_->io, [loop = loop_] {
    for (const auto& one : std::exchange(loop->to_flush, {})) one->FlushNow();
  });
}

}  // namespace spillway::server
