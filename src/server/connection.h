// SPDX-License-Identifier: Apache-2.0
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
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/delete_flusher.h"
#include "server/link.h"
#include "server/session.h"
#include "server/state.h"
#include "wire/request.h"

namespace spillway::server {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(State* state, DeleteFlusher* delete_flusher, std::unique_ptr<Link> link,
             std::string address, std::string local_address);
  ~Connection();

  // All of these on the link's thread.
  void Start();
  // Its client has gone, or has to. A command that has written a part of what it has to
  // write is finished first.
  void Close();
  // At once, whatever stands half done: the daemon ends.
  void Drop();
  // Whether it is to be closed: it was killed, is idle for too long, stalls, or its
  // client has gone while a command of it waits. Asked once a second; zero: no such
  // bound.
  bool IsOver(TimePoint now, Duration stall_max, Duration idle_max);
  bool closed() const { return closed_; }

  // --- for the link ---

  void OnReadable(bool failed);
  void OnWritable(bool failed);
  void OnTimer() { Resume(); }
  void FlushNow();

 private:
  enum class Stop : std::uint8_t {
    kNothing,   // Read on.
    kNeedMore,  // The buffer holds no whole request.
    kWaiting,   // For a tier, room or the disk; Resume comes later.
    kFull,      // The client must read replies first.
    kClosing
  };

  void WaitToRead();
  void WaitToWrite();
  // One read from the socket; false: nothing more is there now, or it is closed.
  bool ReadSome();
  std::size_t Receive(std::span<iovec> into);
  bool ReadLarge();
  bool TakeLarge(std::string_view* rest);
  void NotePace(Bytes bytes);
  // Requests in `bytes`, which come before all that is read later. What is left of
  // them is kept.
  void Feed(std::string_view bytes);
  Stop RunRequests(std::string_view bytes, std::size_t* used);
  Stop RunOne(std::string_view frame);
  Stop RunWhole(std::span<const std::string_view> args);
  Stop RefuseHttp();
  Stop BeginLarge(std::string_view frame, std::size_t* used);
  void PlaceLarge(std::string_view command, std::string_view key, Bytes bytes);
  void EndRequest();
  void FinishAlone();
  void AwaitWhatIsLacking();
  void FetchWanted();
  void SubmitPending();
  void OnPending(const std::shared_ptr<Pending>& pending);
  bool TakeFetched(Pending* pending);
  void AwaitReader();
  void Resume();
  void RetrySoon();
  void AwaitDurable();
  void GiveUpRoom();
  // Sends what can be sent. False: closed.
  bool Flush();
  void GoOn(bool at_once);
  void FlushLater();
  void ProtocolError();

  State* const state_;
  DeleteFlusher* const delete_flusher_;
  const std::unique_ptr<Link> link_;
  Session session_;
  wire::RequestParser parser_;
  std::string in_;      // What was read and not understood yet.
  bool whole_ = false;  // A request stands at the front of in_, and waits.
  Session::Replies replies_ = Session::Replies::kOn;  // As they were before it.

  // A large argument that is being received.
  std::byte* large_at_ = nullptr;  // Null: nobody wants it.
  std::uint64_t large_left_ = 0;   // With its CRLF.
  std::uint64_t large_bytes_left_ = 0;
  bool large_needs_room_ = false;

  bool waiting_ = false;      // A command can't go on, or a large value has no room yet.
  bool submitted_ = false;    // What the command waits for is in progress in the cache.
  bool half_closed_ = false;  // So its socket was when it was last asked, and waited.
  bool reading_ = false;
  bool writing_ = false;
  bool awaits_durable_ = false;  // Replies wait until the disk knows of the writes.
  bool flushes_later_ = false;
  bool alone_ = false;  // The client has gone, and its command is being finished.
  bool resume_posted_ = false;
  bool closed_ = false;
  Bytes output_max_ = 0;
  TimePoint progress_;  // Of a byte, in or out.
};

}  // namespace spillway::server
