// What a reviewer found when its step began: how much of its context was in
// memory already, and how much of it a cache by last use would have had.
#pragma once

#include <mutex>
#include <string>

#include "demo/agent.h"
#include "demo/chronicle.h"
#include "demo/http_client.h"

namespace spillway::demo {

struct Review {
  std::string agent;
  std::size_t blocks = 0;     // Of its own, the prompt that all share left out.
  std::size_t in_memory = 0;  // By the daemon's word, on the card or in the RAM below.
  std::size_t in_lru = 0;     // In a cache by last use of the same memory.
};
// Several of them, and the last.
struct ReviewSum {
  std::size_t reviews = 0;
  std::size_t blocks = 0;
  std::size_t in_memory = 0;
  std::size_t in_lru = 0;
  Review last;
};

class Reviews {
 public:
  // Both are borrowed.
  Reviews(std::uint16_t http_port, const Chronicle* chronicle)
      : http_(http_port), chronicle_(chronicle) {}

  // On the workflow's thread. What can't be asked is not noted.
  void Look(const Agent& reviewer);
  // All since Begin.
  ReviewSum sum() const;
  void Begin();

 private:
  HttpClient http_;  // The workflow's thread only.
  const Chronicle* const chronicle_;
  mutable std::mutex mutex_;
  ReviewSum sum_;  // Guarded by mutex_.
};

// Of `keys`, how many a page of /api/v1/contexts says to be in memory.
std::size_t InMemory(std::span<const std::string> keys, std::string_view contexts_json);

}  // namespace spillway::demo
