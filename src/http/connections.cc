// SPDX-License-Identifier: Apache-2.0
#include "http/connections.h"

#include <utility>

namespace spillway::http {

bool Connections::Add(Connection* connection, const std::string& peer) {
  while (count_ >= count_max_) {
    if (!CloseOne(connection, false)) return false;
  }
  ++count_;
  ++by_peer_[peer];
  connection->peer_ = peer;
  AwaitClient(connection);
  return true;
}

void Connections::Remove(Connection* connection) {
  if (!connection->peer_) return;
  Keep(connection);
  held_ -= std::exchange(connection->held_, 0);
  --count_;
  const auto peer = by_peer_.find(*connection->peer_);
  if (--peer->second == 0) by_peer_.erase(peer);
  connection->peer_.reset();
}

void Connections::AwaitClient(Connection* connection) {
  if (!connection->peer_) return;
  Keep(connection);
  connection->waits_ = waiting_.insert(waiting_.end(), connection);
}

void Connections::Keep(Connection* connection) {
  if (!connection->waits_) return;
  waiting_.erase(*connection->waits_);
  connection->waits_.reset();
}

void Connections::Hold(Connection* connection, Bytes bytes) {
  if (!connection->peer_) return;
  held_ = held_ - connection->held_ + bytes;
  connection->held_ = bytes;
  while (held_ > held_max_ && CloseOne(connection, true)) {
  }
}

// Chooses the address with the most connections, so that many connections from one machine do not
// displace the only one of another.
bool Connections::CloseOne(const Connection* but, bool that_holds) {
  Connection* victim = nullptr;
  std::size_t most = 0;
  for (Connection* each : waiting_) {
    if (each == but || (that_holds && each->held_ == 0)) continue;
    const std::size_t of_peer = by_peer_.at(*each->peer_);
    if (of_peer <= most) continue;
    most = of_peer;
    victim = each;
  }
  if (victim == nullptr) return false;
  ++closed_;
  victim->Close();
  Remove(victim);  // Removed here too, so that the loop ends whatever Close does.
  return true;
}

}  // namespace spillway::http
