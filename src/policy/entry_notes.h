// What the score keeps of a key: while its entry is in the cache, and for hours
// after its bytes are gone. Notes have numbers and do not move; a key's note is
// found by its slot while it is here, by its hash when it is not.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>

#include "policy/return_table.h"
#include "policy/zeroed_table.h"
#include "spillway/units.h"

namespace spillway {

using NoteId = std::uint32_t;
inline constexpr NoteId kNoNote = ~NoteId{0};
inline constexpr std::size_t kLinesMax = 6;  // Lines of entries that rank by one score.

// What a client last said of it, as a level.
inline constexpr std::uint8_t kSaidNothing = 0;
inline constexpr std::uint8_t kSaidDone = 1;
inline constexpr std::uint8_t kSaidAgain = 2;  // From here on: again, and when.
inline constexpr std::uint8_t kHintLevels = 9;
// Nobody's word: its chain goes on without it, from what it continues.
inline constexpr std::uint8_t kSuperseded = 255;

// What is read whenever its age passes a step comes first.
struct alignas(64) Note {
  double since = 0;    // Its last use that is known.
  double entered = 0;  // When it came into `bin`, if it waits.
  EntryId id{};        // While it is here.
  ReturnClass c = 0;
  std::uint32_t seen = 0;    // Uses of this generation, by its own count.
  std::uint32_t queued = 0;  // Tells its place in the queues from older ones.
  std::uint8_t bin = 0;
  std::uint8_t step = 0;
  std::uint8_t hint = kSaidNothing;
  std::uint8_t lines = 0;  // A bit for each it stands in.
  std::array<std::int8_t, kLinesMax> cost{};
  bool here = false;
  bool aging = false;     // In the queue of its step.
  bool open = false;      // Set just now, and may be continued at once.
  bool waits = false;     // Its wait counts in the table.
  bool ends = false;      // Who continues it was used less often: it waits for itself.
  bool shared = false;    // Several continued it.
  bool missed = false;    // Asked for since it has gone.
  bool up = false;        // In the top tier,
  bool was_up = false;    // now or before.
  float recompute_s = 0;  // As declared; 0: not.

  std::uint64_t hash = 0;  // Of its key; 0: not known, and nobody remembers it.
  std::uint32_t uses = 0;  // Ever.
  std::uint32_t life = 0;  // Times it has gone.
  Bytes bytes = 0;
  EntryId parent{};
  double window_at = 0;               // Where the guard's window has its bytes.
  double told_at = -1;                // When its client's word was said.
  double turn_at = 0;                 // When its turn began.
  std::uint64_t first_child = 0;      // Hash of who continued it first, or in its stead,
  NoteId first_child_note = kNoNote;  // and its note, while that has this hash.
  std::uint32_t depth = 0;            // Of its chain, the root being 0.
  std::uint32_t children = 0;         // Notes of those here that continue it.
  std::uint16_t state = 0;            // What it waits for, as its client says.
  std::uint8_t turn = 0;
  std::uint8_t pause = 0;
};
static_assert(sizeof(Note) <= 192);

class NotePool {
 public:
  explicit NotePool(std::size_t most) : notes_(most) {}

  Note& operator[](NoteId id) { return notes_[id]; }
  const Note& operator[](NoteId id) const { return notes_[id]; }
  // Throws bad_alloc.
  NoteId Take() {
    NoteId id = free_;
    if (id == kNoNote) {
      if (used_ == notes_.size()) throw std::bad_alloc();
      id = static_cast<NoteId>(used_++);
      new (&notes_[id]) Note();
    }
    Note& note = notes_[id];
    free_ = note.first_child_note;
    // Old places in queues must not be taken for this one's.
    const std::uint32_t queued = note.queued;
    const std::uint32_t life = note.life;
    note = Note();
    note.queued = queued + 1;
    note.life = life + 1;
    ++size_;
    return id;
  }
  // Needs no memory.
  void Give(NoteId id) {
    Note& note = notes_[id];
    ++note.queued;
    ++note.life;
    note.here = false;
    note.lines = 0;
    note.hash = 0;
    note.first_child_note = free_;
    free_ = id;
    --size_;
  }
  std::size_t size() const { return size_; }
  void Prefetch(NoteId id) const {
    const Note* const note = &notes_[id];
    __builtin_prefetch(note, 1);
    __builtin_prefetch(reinterpret_cast<const char*>(note) + 64, 1);
    __builtin_prefetch(reinterpret_cast<const char*>(note) + 128, 1);
  }

 private:
  ZeroedTable<Note> notes_;
  std::size_t used_ = 0;   // From there on none was ever taken.
  NoteId free_ = kNoNote;  // Linked through Note::first_child_note.
  std::size_t size_ = 0;
};

// Notes of those who are gone, by hash. Open addressing; what leaves is closed
// up behind, so nothing is left over.
class GoneTable {
 public:
  explicit GoneTable(const NotePool* notes) : notes_(notes) {}
  NoteId Find(std::uint64_t hash) const;
  // Throws bad_alloc, and then nothing changed. It must not be there.
  void Add(NoteId id);
  void Remove(NoteId id);
  void Prefetch(std::uint64_t hash) const {
    if (size_ > 0) __builtin_prefetch(&cells_[Mix(hash) & mask()], 1);
  }
  std::size_t size() const { return size_; }

 private:
  // Enough of the hash to tell most others apart without a look at their notes.
  struct Cell {
    std::uint32_t note_more = 0;  // By one, so that an untouched cell is empty.
    std::uint32_t mixed = 0;
    bool empty() const { return note_more == 0; }
    NoteId note() const { return note_more - 1; }
  };
  static std::uint32_t Mix(std::uint64_t hash) {
    return static_cast<std::uint32_t>((hash * 0x9e3779b97f4a7c15ULL) >> 32);
  }
  std::size_t mask() const { return cells_.size() - 1; }
  void Put(Cell cell);

  const NotePool* const notes_;
  ZeroedTable<Cell> cells_;  // A power of two, or none.
  std::size_t size_ = 0;
};

}  // namespace spillway
