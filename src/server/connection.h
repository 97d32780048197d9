// One client on a socket: reads requests, has them run, writes replies. All of it
// on its loop's thread, and never waiting for anything: where a command has to
// wait, the connection does, and the loop serves others.
//
// What bounds it: replies beyond a mark stop the reading of requests; an
// unfinished request may hold `input_max`; a large value goes into room the cache
// has made for it, or nowhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>

#include "server/loop.h"
#include "server/session.h"
#include "server/settler.h"
#include "server/state.h"
#include "wire/request.h"

namespace spillway::server {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;

  Connection(State* state, Settler* settler, Loop* loop, Socket socket, std::string address,
             std::string local_address);
  ~Connection();

  void Start();
  // On the loop's thread.
  void Close();
  // Whether it is to be closed: it was killed, is idle for too long, or stalls.
  // Asked once a second; zero: no such bound.
  bool IsOver(TimePoint now, Duration stall_max, Duration idle_max) const;

 private:
  enum class Stop : std::uint8_t {
    kNothing,   // Read on.
    kNeedMore,  // The buffer holds no whole request.
    kWaiting,   // For a tier, room or the disk: somebody will call Resume.
    kFull,      // The client must read replies first.
    kClosing
  };

  void WaitToRead();
  void WaitToWrite();
  void OnReadable();
  // One read from the socket; false: nothing more is there now, or it is closed.
  bool ReadSome();
  bool ReadLarge();
  bool TakeLarge(std::string_view* rest);
  // Requests in `bytes`, which come before all that is read later. What is left of
  // them is kept.
  void Feed(std::string_view bytes);
  Stop RunRequests(std::string_view bytes, std::size_t* used);
  Stop RunOne(std::string_view frame);
  Stop RefuseHttp();
  Stop BeginLarge(std::string_view frame, std::size_t* used);
  void PlaceLarge(std::string_view command, std::string_view key, Bytes bytes);
  void EndRequest();
  void AwaitWhatIsLacking();
  void SubmitPending();
  void OnPending();
  void Resume();
  void RetrySoon();
  bool OverOutput() const;
  // Sends what can be sent. False: closed.
  bool Flush();
  void GoOn(bool at_once);
  void FlushLater();
  void ProtocolError();

  State* const state_;
  Settler* const settler_;
  Loop* const loop_;
  Socket socket_;
  boost::asio::steady_timer timer_;
  Session session_;
  wire::RequestParser parser_;
  std::string in_;      // What was read and not understood yet.
  bool whole_ = false;  // A request stands at the front of in_, and waits.

  // A large argument that is being received.
  std::byte* large_at_ = nullptr;  // Null: nobody wants it.
  std::uint64_t large_left_ = 0;   // With its CRLF.
  std::uint64_t large_bytes_left_ = 0;
  bool large_needs_room_ = false;

  bool waiting_ = false;
  bool reading_ = false;
  bool writing_ = false;
  bool settling_ = false;
  bool flushes_later_ = false;
  bool closed_ = false;
  Bytes output_max_ = 0;
  TimePoint progress_;  // Of a byte, in or out.
};

}  // namespace spillway::server
