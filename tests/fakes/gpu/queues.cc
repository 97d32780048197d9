// SPDX-License-Identifier: Apache-2.0
#include "fakes/gpu/queues.h"

#include <algorithm>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace fakes {

namespace {

// The default stream of a card, which no call creates.
std::uint64_t DefaultStream(int card) { return static_cast<std::uint64_t>(card) + 1; }

bool Meet(Address a, std::uint64_t a_bytes, Address b, std::uint64_t b_bytes) {
  return a_bytes != 0 && b_bytes != 0 && a < b + b_bytes && b < a + a_bytes;
}

void CopySpans(std::vector<Span> to, std::vector<Span> from) {
  for (std::size_t t = 0, f = 0; t < to.size() && f < from.size();) {
    const std::size_t bytes = std::min(to[t].bytes, from[f].bytes);
    std::memcpy(to[t].at, from[f].at, bytes);
    for (Span* span : {&to[t], &from[f]}) {
      span->at += bytes;
      span->bytes -= bytes;
    }
    if (to[t].bytes == 0) ++t;
    if (from[f].bytes == 0) ++f;
  }
}

Span SpanOf(std::string* bytes) {
  return {reinterpret_cast<std::byte*>(bytes->data()), bytes->size(), nullptr};
}

}  // namespace

Queues::Queues(const Options& options, Memory* memory, Complaints* complaints, std::mutex* mutex)
    : options_(options),
      memory_(memory),
      complaints_(complaints),
      mutex_(mutex),
      random_(options.seed) {
  if (options_.thread) worker_ = std::thread([this] { Work(); });
}

Queues::~Queues() {
  {
    const std::lock_guard lock(*mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (worker_.joinable()) worker_.join();
}

// Streams and events

std::uint64_t Queues::CreateStream(int card) {
  streams_[++last_id_].card = card;
  return last_id_;
}

Queues::Stream& Queues::StreamOf(std::uint64_t stream, int card) {
  if (stream != 0) return streams_.at(stream);
  Stream& standard = streams_[DefaultStream(card)];
  standard.card = card;
  return standard;
}

int Queues::Check(std::uint64_t stream, int card) {
  if (stream == 0) return 0;
  const auto found = streams_.find(stream);
  if (found == streams_.end() || found->second.destroyed || stream <= DefaultStream(7)) {
    complaints_->Add("stream ", Hex{stream}, " is not there");
    return kInvalidHandle;
  }
  if (found->second.card != card) {
    complaints_->Add("stream ", Hex{stream}, " is of card ", found->second.card, ", not ", card);
    return kInvalidHandle;
  }
  return 0;
}

int Queues::DestroyStream(std::uint64_t stream) {
  const auto found = streams_.find(stream);
  if (found == streams_.end() || found->second.destroyed || stream <= DefaultStream(7)) {
    complaints_->Add("destroying stream ", Hex{stream}, ", which is not there");
    return kInvalidHandle;
  }
  found->second.destroyed = true;  // What is queued on it is still done.
  return 0;
}

std::uint64_t Queues::CreateEvent(int card) {
  events_[++last_id_].card = card;
  return last_id_;
}

int Queues::DestroyEvent(std::uint64_t event) {
  if (events_.erase(event) != 0) return 0;
  complaints_->Add("destroying event ", Hex{event}, ", which is not there");
  return kInvalidHandle;
}

int Queues::Record(Lock* lock, std::uint64_t event, std::uint64_t stream, int card) {
  Chance(lock);
  if (const int code = Check(stream, card)) return code;
  const auto found = events_.find(event);
  if (found == events_.end() || found->second.card != card) {
    complaints_->Add("recording event ", Hex{event}, ", which is not there or of another card");
    return kInvalidHandle;
  }
  Operation operation;
  operation.kind = Operation::Kind::kRecord;
  operation.mark = found->second.mark = std::make_shared<Mark>();
  Enqueue(stream == 0 ? DefaultStream(card) : stream, &StreamOf(stream, card),
          std::move(operation));
  return 0;
}

int Queues::Wait(Lock* lock, std::uint64_t stream, std::uint64_t event, int card) {
  Chance(lock);
  if (const int code = Check(stream, card)) return code;
  const auto found = events_.find(event);
  if (found == events_.end()) {
    complaints_->Add("waiting for event ", Hex{event}, ", which is not there");
    return kInvalidHandle;
  }
  if (found->second.mark == nullptr) return 0;  // Never recorded: nothing to wait for.
  Operation operation;
  operation.kind = Operation::Kind::kWait;
  operation.mark = found->second.mark;
  Enqueue(stream == 0 ? DefaultStream(card) : stream, &StreamOf(stream, card),
          std::move(operation));
  return 0;
}

int Queues::Query(Lock* lock, std::uint64_t event) {
  const auto found = events_.find(event);
  if (found == events_.end()) {
    complaints_->Add("asking for event ", Hex{event}, ", which is not there");
    return kInvalidHandle;
  }
  const std::shared_ptr<Mark> mark = found->second.mark;
  if (mark == nullptr) return 0;
  if (!options_.thread && !mark->done) {
    for (std::uint64_t steps = 1 + random_() % 3; steps > 0 && Step(lock); --steps) {
    }
  }
  if (!mark->done) return kNotReady;
  if (mark->code == 0) Seen(mark);
  return mark->code;
}

// What is queued

int Queues::CheckPiece(const Piece& piece, int card, bool fill) {
  for (const bool write : {true, false}) {
    if (piece.bytes == 0 || (fill && !write)) continue;
    const Address at = write ? piece.to : piece.from;
    if (memory_->IsDevice(at)) {
      if (memory_->Resolve(at, piece.bytes, card, write)) continue;
      complaints_->Add(write ? "writing " : "reading ", Hex{at}, " + ", piece.bytes, ": card ",
                       card, " has no memory or no access there");
      return kInvalidValue;
    }
    if (at != 0 && memory_->HostKind(at, piece.bytes) != Memory::Host::kTorn) continue;
    complaints_->Add("copying host memory ", Hex{at}, " + ", piece.bytes,
                     ": in part registered, or in two parts");
    return kInvalidValue;
  }
  return 0;
}

// No piece may write what another reads or writes: their order is not defined.
int Queues::CheckOverlaps(const std::vector<Piece>& pieces) {
  struct Use {
    Address at;
    std::uint64_t bytes;
    bool write;
  };
  std::vector<Use> uses;
  for (const Piece& piece : pieces) {
    if (piece.bytes == 0) continue;
    uses.push_back({piece.to, piece.bytes, true});
    if (piece.from != 0) uses.push_back({piece.from, piece.bytes, false});
  }
  std::ranges::sort(uses, {}, &Use::at);
  Address written = 0;  // How far any piece before writes, and touches.
  Address touched = 0;
  for (const Use& use : uses) {
    if (use.at < written || (use.write && use.at < touched)) {
      complaints_->Add("pieces of one copy overlap at ", Hex{use.at});
      return kInvalidValue;
    }
    touched = std::max(touched, use.at + use.bytes);
    if (use.write) written = std::max(written, use.at + use.bytes);
  }
  return 0;
}

bool Queues::IsPageable(const Operation& operation) const {
  const auto pageable = [&](Address at, std::uint64_t bytes) {
    return at != 0 && bytes != 0 && !memory_->IsDevice(at) &&
           memory_->HostKind(at, bytes) == Memory::Host::kPageable;
  };
  return std::ranges::any_of(operation.pieces, [&](const Piece& piece) {
    return pageable(piece.to, piece.bytes) || pageable(piece.from, piece.bytes);
  });
}

int Queues::Add(Lock* lock, std::uint64_t stream, int card, Operation operation, bool early) {
  Chance(lock);
  if (const int code = Check(stream, card)) return code;
  const bool fill = operation.kind == Operation::Kind::kFill;
  if (operation.kind != Operation::Kind::kHash) {
    for (const Piece& piece : operation.pieces) {
      if (const int code = CheckPiece(piece, card, fill)) return code;
    }
    if (const int code = CheckOverlaps(operation.pieces)) return code;
  }
  for (const Piece& piece : operation.pieces) {
    if (!early) break;
    auto bytes = std::make_shared<std::string>(piece.bytes, '\0');
    CopySpans({SpanOf(bytes.get())}, *Find(piece.from, piece.bytes, card, false));
    operation.read_early.push_back(std::move(bytes));
  }
  const bool pageable = IsPageable(operation);
  Enqueue(stream == 0 ? DefaultStream(card) : stream, &StreamOf(stream, card),
          std::move(operation));
  if (!pageable) return 0;
  // It goes through the driver's own staging memory, and is done when the call returns.
  ++pageable_;
  return Drain(lock, stream, card);
}

void Queues::Enqueue(std::uint64_t id, Stream* stream, Operation operation) {
  operation.number = ++stream->last;
  if (operation.kind == Operation::Kind::kRecord) {
    operation.mark->stream = id;
    operation.mark->number = operation.number;
  }
  stream->queued.push_back(std::move(operation));
  changed_.notify_all();
}

// Carrying out

std::optional<std::vector<Span>> Queues::Find(Address at, std::uint64_t bytes, int card,
                                              bool write) const {
  if (memory_->IsDevice(at)) return memory_->Resolve(at, bytes, card, write);
  return std::vector<Span>{{reinterpret_cast<std::byte*>(at), bytes, nullptr}};
}

bool Queues::ReadTable(const Stream& stream, Operation* operation) const {
  const Piece& table = operation->table;
  if (!memory_->IsDevice(table.from) &&
      memory_->HostKind(table.from, table.bytes) != Memory::Host::kPinned) {
    return false;
  }
  const auto spans = Find(table.from, table.bytes, stream.card, false);
  if (!spans) return false;
  std::string bytes(table.bytes, '\0');
  CopySpans({SpanOf(&bytes)}, *spans);
  operation->pieces.resize(table.bytes / sizeof(Piece));
  if (!bytes.empty()) std::memcpy(operation->pieces.data(), bytes.data(), bytes.size());
  return true;
}

bool Queues::Prepare(const Stream& stream, Operation* operation, std::vector<Move>* transfers) {
  if (operation->kind == Operation::Kind::kGather) {
    if (!ReadTable(stream, operation)) {
      complaints_->Add("a kernel's table at ", Hex{operation->table.from}, " can't be read");
      return false;
    }
    for (const Piece& piece : operation->pieces) {
      if (CheckPiece(piece, stream.card, false) != 0) return false;
    }
    if (IsPageable(*operation)) {
      complaints_->Add("a kernel touches host memory the card does not know");
      return false;
    }
    if (CheckOverlaps(operation->pieces) != 0) return false;
  }
  if (operation->kind == Operation::Kind::kHash) return PrepareHash(stream, *operation, transfers);
  for (std::size_t i = 0; i < operation->pieces.size(); ++i) {
    const Piece& piece = operation->pieces[i];
    Move transfer;
    auto to = Find(piece.to, piece.bytes, stream.card, true);
    if (!operation->read_early.empty()) transfer.read_early = operation->read_early[i];
    auto from = operation->kind == Operation::Kind::kFill || transfer.read_early != nullptr
                    ? std::vector<Span>()
                    : Find(piece.from, piece.bytes, stream.card, false);
    if (!to || !from) {
      complaints_->Add("a queued copy of ", Hex{piece.from}, " to ", Hex{piece.to}, " + ",
                       piece.bytes, " finds its memory gone");
      return false;
    }
    transfer.to = std::move(*to);
    transfer.from = std::move(*from);
    if (transfer.read_early != nullptr) transfer.from = {SpanOf(transfer.read_early.get())};
    transfers->push_back(std::move(transfer));
  }
  std::ranges::shuffle(*transfers, random_);  // They have no order among themselves.
  return true;
}

bool Queues::PrepareHash(const Stream& stream, const Operation& operation,
                         std::vector<Move>* transfers) {
  const Piece& data = operation.pieces[0];
  const Piece& results = operation.pieces[1];
  auto from = memory_->Resolve(data.from, data.bytes, stream.card, false);
  if (!from || memory_->HostKind(results.to, results.bytes) != Memory::Host::kPinned) {
    complaints_->Add("hashing ", Hex{data.from}, " + ", data.bytes, " into ", Hex{results.to},
                     ": no memory there, or none that the card knows");
    return false;
  }
  transfers->push_back(
      {*Find(results.to, results.bytes, stream.card, true), std::move(*from), nullptr});
  return true;
}

void Queues::Hash(const Move& transfer) {
  std::string bytes;
  for (const Span& span : transfer.from) {
    bytes.append(reinterpret_cast<const char*>(span.at), span.bytes);
  }
  std::vector<XXH128_hash_t> made;
  for (std::size_t at = 0; at < bytes.size(); at += kHashedAtOnce) {
    made.push_back(XXH3_128bits(bytes.data() + at, kHashedAtOnce));
  }
  std::memcpy(transfer.to.front().at, made.data(), made.size() * sizeof(made.front()));
}

// A head is run by one thread at a time; a reference to it stays valid while others
// append.
void Queues::CarryOut(Lock* lock, Stream* stream) {
  Operation& operation = stream->queued.front();
  if (operation.kind == Operation::Kind::kRecord || operation.kind == Operation::Kind::kWait) {
    if (operation.kind == Operation::Kind::kRecord) operation.mark->done = true;
    Finished(stream);
    return;
  }
  std::vector<Move> transfers;
  if (!Prepare(*stream, &operation, &transfers)) {
    dead_ = kIllegalAddress;
    Kill(lock, dead_);
    return;
  }
  stream->running = true;
  lock->unlock();
  for (const Move& transfer : transfers) {
    if (operation.kind == Operation::Kind::kHash) {
      Hash(transfer);
      continue;
    }
    if (operation.kind != Operation::Kind::kFill) {
      CopySpans(transfer.to, transfer.from);
      if (operation.garbled) *transfer.to.front().at ^= std::byte{16};
      continue;
    }
    for (const Span& span : transfer.to) std::memset(span.at, operation.value, span.bytes);
  }
  transfers.clear();
  lock->lock();
  stream->running = false;
  Finished(stream);
}

void Queues::Finished(Stream* stream) {
  stream->done.push_back(std::move(stream->queued.front()));
  stream->queued.pop_front();
  changed_.notify_all();
}

bool Queues::Step(Lock* lock) {
  if (hung_) return false;
  std::vector<Stream*> ready;
  for (auto& [id, stream] : streams_) {
    if (stream.running || stream.queued.empty()) continue;
    const Operation& head = stream.queued.front();
    if (head.kind != Operation::Kind::kWait || head.mark->done) ready.push_back(&stream);
  }
  if (ready.empty()) return false;
  CarryOut(lock, ready[random_() % ready.size()]);
  return true;
}

void Queues::Chance(Lock* lock) {
  if (!options_.thread && random_() % 4 == 0) Step(lock);
}

void Queues::Work() {
  Lock lock(*mutex_);
  while (!stop_) {
    if (!Step(&lock)) changed_.wait(lock);
  }
}

int Queues::Drain(Lock* lock, std::optional<std::uint64_t> stream, int card) {
  const auto is_done = [&] {
    if (stream) return StreamOf(*stream, card).queued.empty();
    return std::ranges::all_of(streams_,
                               [](const auto& each) { return each.second.queued.empty(); });
  };
  const std::uint64_t kills = kills_;
  while (!is_done()) {
    if (hung_) {
      complaints_->Add("a call waits for a card that hangs");
      return kTimeout;
    }
    if (options_.thread || !Step(lock)) changed_.wait(*lock);
  }
  if (kills != kills_) return killed_by_;
  for (auto& [id, each] : streams_) {
    if (!stream || &each == &StreamOf(*stream, card)) SeenUntil(&each, each.last);
  }
  return 0;
}

void Queues::Kill(Lock* lock, int code) {
  changed_.wait(*lock, [this] {
    return std::ranges::none_of(streams_, [](const auto& each) { return each.second.running; });
  });
  for (auto& [id, stream] : streams_) {
    for (const Operation& operation : stream.queued) {
      if (operation.kind != Operation::Kind::kRecord) continue;
      operation.mark->done = true;
      operation.mark->code = code;
    }
    stream.queued.clear();
    stream.done.clear();
  }
  ++kills_;
  killed_by_ = code;
  changed_.notify_all();
}

void Queues::SetHung(bool hung) {
  hung_ = hung;
  changed_.notify_all();
}

// What the program knows

void Queues::Seen(const std::shared_ptr<Mark>& mark) {
  if (mark->seen) return;
  mark->seen = true;
  SeenUntil(&streams_.at(mark->stream), mark->number);
}

void Queues::SeenUntil(Stream* stream, std::uint64_t number) {
  while (!stream->done.empty() && stream->done.front().number <= number) {
    const Operation operation = std::move(stream->done.front());
    stream->done.pop_front();
    // The program has also seen what that operation waited for.
    if (operation.mark != nullptr) Seen(operation.mark);
  }
}

std::string Queues::User(Address at, std::size_t bytes) const {
  for (const auto& [id, stream] : streams_) {
    for (const auto* list : {&stream.done, &stream.queued}) {
      for (const Operation& operation : *list) {
        const bool in_table = Meet(at, bytes, operation.table.from, operation.table.bytes);
        if (in_table || std::ranges::any_of(operation.pieces, [&](const Piece& piece) {
              return Meet(at, bytes, piece.to, piece.bytes) ||
                     (piece.from != 0 && Meet(at, bytes, piece.from, piece.bytes));
            })) {
          return Text("operation ", operation.number, " of stream ", Hex{id});
        }
      }
    }
  }
  return {};
}

std::size_t Queues::pending() const {
  std::size_t sum = 0;
  for (const auto& [id, stream] : streams_) sum += stream.queued.size();
  return sum;
}

std::string Queues::Ledger() const {
  std::string all;
  for (const auto& [id, stream] : streams_) {
    if (!stream.destroyed && id > DefaultStream(7)) all += Text("stream ", Hex{id}, "\n");
  }
  for (const auto& [id, event] : events_) all += Text("event ", Hex{id}, "\n");
  return all;
}

}  // namespace fakes
