// SPDX-License-Identifier: Apache-2.0
// Streams, events, and the operations queued on them. No operation runs at the call
// that queues it: later, the calling thread (or a thread of the fake's own) runs the
// head of a stream that is chosen by seed and chance among those that may go on.
// Sources are read and targets written at that time.
//
// 1. A stream's operations run in order; a wait is for the record as it was when the
//    wait was queued.
// 2. Asking for an event that is not done runs at least one operation, if any can run:
//    a program that polls comes to an end.
// 3. Memory is in use by an operation until the program has seen an event after it, not
//    merely until it has run: so a mistake is found even if the timing would hide it.
//
// Every function needs the Gpu's mutex, held by `Lock`; bytes are copied without.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "fakes/gpu/complaints.h"
#include "fakes/gpu/memory.h"

namespace fakes {

using Lock = std::unique_lock<std::mutex>;

// How much the hash kernel puts into one checksum.
inline constexpr std::size_t kHashedAtOnce = 1 << 20;

struct Piece {
  Address to = 0;
  Address from = 0;
  std::uint64_t bytes = 0;
};

// One record of an event.
struct Mark {
  std::uint64_t stream = 0;
  std::uint64_t number = 0;  // Of the operation in its stream.
  bool done = false;
  bool seen = false;  // The program knows that it is done.
  int code = 0;       // Other than 0: why it was never done.
};

struct Operation {
  enum class Kind { kCopy, kFill, kGather, kHash, kRecord, kWait };
  Kind kind = Kind::kCopy;
  std::vector<Piece> pieces;
  unsigned char value = 0;                               // Fill.
  Piece table;                                           // Gather: `from` and `bytes`.
  bool garbled = false;                                  // Copy: a bit arrives flipped.
  std::shared_ptr<Mark> mark;                            // Record, wait.
  std::vector<std::shared_ptr<std::string>> read_early;  // Of sources, piece by piece.
  std::uint64_t number = 0;
};

class Queues {
 public:
  Queues(const Options& options, Memory* memory, Complaints* complaints, std::mutex* mutex);
  ~Queues();  // Without the mutex. Queued operations are never done.
  Queues(const Queues&) = delete;
  Queues& operator=(const Queues&) = delete;

  std::uint64_t CreateStream(int card);
  int DestroyStream(std::uint64_t stream);
  // 0, or the error that this card has no such stream. Stream 0 is the default one.
  int Check(std::uint64_t stream, int card);
  std::uint64_t CreateEvent(int card);
  int DestroyEvent(std::uint64_t event);
  int Record(Lock* lock, std::uint64_t event, std::uint64_t stream, int card);
  int Wait(Lock* lock, std::uint64_t stream, std::uint64_t event, int card);
  int Query(Lock* lock, std::uint64_t event);

  // Checks what can be checked now; `early`: sources may be read at once.
  int Add(Lock* lock, std::uint64_t stream, int card, Operation operation, bool early = false);
  // Runs all operations of one stream, or of all. Timeout if the card hangs.
  int Drain(Lock* lock, std::optional<std::uint64_t> stream, int card);
  // Queued operations are never done; events return `code`.
  void Kill(Lock* lock, int code);
  void SetHung(bool hung);
  // After an operation that touched missing memory, every call returns this.
  int dead() const { return dead_; }
  void Revive() { dead_ = 0; }

  // The operation that uses any of it; empty: there is none.
  std::string User(Address at, std::size_t bytes) const;
  std::size_t pending() const;
  std::uint64_t pageable() const { return pageable_; }
  std::string Ledger() const;

 private:
  struct Stream {
    int card = 0;
    bool destroyed = false;
    bool running = false;  // Its head is being carried out.
    std::uint64_t last = 0;
    std::deque<Operation> queued;
    std::deque<Operation> done;  // Done, but the program does not know yet.
  };
  struct Event {
    int card = 0;
    std::shared_ptr<Mark> mark;
  };
  // What to copy; the copy runs without the mutex.
  struct Move {
    std::vector<Span> to;
    std::vector<Span> from;
    std::shared_ptr<std::string> read_early;
  };
  bool PrepareHash(const Stream& stream, const Operation& operation, std::vector<Move>* transfers);
  static void Hash(const Move& transfer);

  Stream& StreamOf(std::uint64_t stream, int card);
  int CheckPiece(const Piece& piece, int card, bool fill);
  int CheckOverlaps(const std::vector<Piece>& pieces);
  bool IsPageable(const Operation& operation) const;
  void Enqueue(std::uint64_t id, Stream* stream, Operation operation);
  std::optional<std::vector<Span>> Find(Address at, std::uint64_t bytes, int card,
                                        bool write) const;
  bool ReadTable(const Stream& stream, Operation* operation) const;
  bool Prepare(const Stream& stream, Operation* operation, std::vector<Move>* transfers);
  bool Step(Lock* lock);
  void CarryOut(Lock* lock, Stream* stream);
  void Finished(Stream* stream);
  void Seen(const std::shared_ptr<Mark>& mark);
  void SeenUntil(Stream* stream, std::uint64_t number);
  void Chance(Lock* lock);
  void Work();

  const Options options_;
  Memory* const memory_;
  Complaints* const complaints_;
  std::mutex* const mutex_;
  std::condition_variable changed_;
  std::mt19937_64 random_;
  std::map<std::uint64_t, Stream> streams_;
  std::map<std::uint64_t, Event> events_;
  std::uint64_t last_id_ = 0x100;  // Of streams and events: never used twice.
  std::uint64_t pageable_ = 0;
  std::uint64_t kills_ = 0;
  int killed_by_ = 0;
  int dead_ = 0;
  bool hung_ = false;
  bool stop_ = false;
  std::thread worker_;
};

}  // namespace fakes
