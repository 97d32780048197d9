// SPDX-License-Identifier: Apache-2.0
// The Connections of an HttpServer: how many are open, from which addresses, and how much memory
// their requests and answers hold. It chooses the connection to close when there are too many. A
// client that has sent half a request, is idle between requests, or does not read its answer
// occupies a place without using it, and any number of clients can do that. Therefore the server
// does not refuse a new connection because of them: it closes the one that has waited longest for
// its client, from the address with the most connections.
//
// A connection with a request in progress, or with a stream, is not closed for others. The number
// of these has its own limit, below the total. Single-threaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>

#include "spillway/units.h"

namespace spillway::http {

class Connections;

// A connection as seen by Connections. Implemented by the server's session.
class Connection {
 public:
  Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  virtual ~Connection() = default;

  // Ends the connection now, and removes it from its Connections.
  virtual void Close() = 0;

 private:
  friend class Connections;
  std::optional<std::string> peer_;  // Empty: not open.
  Bytes held_ = 0;
  std::optional<std::list<Connection*>::iterator> waits_;
};

// Used on the server's thread only.
class Connections {
 public:
  // At most `count_max` connections, and `held_max` bytes of requests and answers in all. A single
  // connection may hold more.
  Connections(std::size_t count_max, Bytes held_max) : count_max_(count_max), held_max_(held_max) {}

  // Adds a connection, which then waits for its client. False: all connections are busy, so it must
  // not be opened.
  bool Add(Connection* connection, const std::string& peer);
  // Removes a connection. Does nothing if it was removed already.
  void Remove(Connection* connection);

  // From now on the connection waits for its client: for a request, or for the answer to be read.
  void AwaitClient(Connection* connection);
  // From now on the server is working for the connection.
  void Keep(Connection* connection);
  // Records what its request and answer hold. If the sum is too large, other connections are
  // closed.
  void Hold(Connection* connection, Bytes bytes);

  std::size_t count() const { return count_; }
  Bytes held() const { return held_; }
  std::uint64_t closed_for_others() const { return closed_; }

 private:
  // False: no connection can be closed.
  bool CloseOne(const Connection* but, bool that_holds);

  const std::size_t count_max_;
  const Bytes held_max_;
  std::size_t count_ = 0;
  Bytes held_ = 0;
  std::uint64_t closed_ = 0;
  std::list<Connection*> waiting_;  // Longest waiting first.
  std::map<std::string, std::size_t> by_peer_;
};

}  // namespace spillway::http
