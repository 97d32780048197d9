// SPDX-License-Identifier: Apache-2.0
// A Loop is one thread that serves clients: an io_context, its connections, and a buffer they all
// read into, so that an idle connection holds none.
#pragma once

#include <cstddef>
#include <memory>
#include <unordered_set>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

namespace spillway::server {

class Connection;

struct Loop {
  static constexpr std::size_t kScratchBytes = 256 * 1024;

  boost::asio::io_context io{1};
  std::vector<char> scratch = std::vector<char>(kScratchBytes);
  std::unordered_set<std::shared_ptr<Connection>> connections;  // This loop's thread only.
  std::vector<std::shared_ptr<Connection>> to_flush;            // This loop's thread only.
  boost::asio::steady_timer tick{io};
};

}  // namespace spillway::server
