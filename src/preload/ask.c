/* SPDX-License-Identifier: Apache-2.0
 * The asking side of docs/design/ask.md: HELD and HOLD to every cache of a device, then ASK to each
 * for a share in proportion to what it holds. What answers anything else, or too late, is left
 * out. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "preload/preload.h"

enum { kPeersMax = 32, kLineMax = 256 };

struct Peer {
  int fd; /* -1: left out. */
  bool waiting;
  bool spent; /* Gave less than it was asked for. */
  bool later; /* Had no time for us: it may have in a moment. */
  uint64_t held;
  uint64_t at_once;
  uint64_t freed;
  uint64_t wanted;
  uint64_t number; /* Of the last answer. */
  size_t length;
  char line[kLineMax + 1];
};

struct Asking {
  char device[kUuidText];
  int count;
  bool busy; /* A socket could not be connected to because too many do. */
  struct Peer peers[kPeersMax];
  struct SocketSearch search;
};

/* --- lines --- */

static size_t Put(char* line, size_t at, const char* text) {
  while (*text != '\0' && at < kLineMax - 1) line[at++] = *text++;
  return at;
}

static size_t PutNumber(char* line, size_t at, uint64_t number) {
  char digits[24];
  size_t from = sizeof digits - 1;
  digits[from] = '\0';
  do {
    digits[--from] = (char)('0' + number % 10);
    number /= 10;
  } while (number > 0);
  return Put(line, at, digits + from);
}

/* Reads a number; null: there is none, or it is no number of bytes. */
static const char* TakeNumber(const char* text, uint64_t* number) {
  const uint64_t most = UINT64_C(1) << 60;
  if (*text < '0' || *text > '9') return NULL;
  for (*number = 0; *text >= '0' && *text <= '9'; ++text) {
    *number = *number * 10 + (uint64_t)(*text - '0');
    if (*number > most) return NULL;
  }
  return text;
}

static void LeaveOut(struct Peer* peer) {
  if (peer->fd >= 0) close(peer->fd);
  peer->fd = -1;
  peer->waiting = false;
}

static void Send(struct Peer* peer, const char* verb, const char* device, uint64_t bytes,
                 int64_t ms, bool amounts) {
  char line[kLineMax];
  size_t length = Put(line, 0, verb);
  length = Put(line, length, " 1 ");
  length = Put(line, length, device);
  if (amounts) {
    length = PutNumber(line, Put(line, length, " "), bytes);
    length = PutNumber(line, Put(line, length, " "), ms < 0 ? 0 : (uint64_t)ms);
  }
  line[length++] = '\n';
  const ssize_t sent = send(peer->fd, line, length, MSG_NOSIGNAL | MSG_DONTWAIT);
  /* It may have told us why it does not want us, and closed. */
  if (sent != (ssize_t)length && errno != EPIPE) {
    LeaveOut(peer);
    return;
  }
  peer->waiting = true;
  peer->length = 0;
}

/* An answer is complete. */
static void Understand(struct Peer* peer, bool is_held) {
  static const char again[] = "try again later";
  peer->waiting = false;
  if (strncmp(peer->line, "OK ", 3) == 0) {
    const char* const rest = TakeNumber(peer->line + 3, &peer->number);
    if (rest == NULL || (*rest != ' ' && *rest != '\0')) {
      LeaveOut(peer);
      return;
    }
    if (is_held && (*rest != ' ' || TakeNumber(rest + 1, &peer->at_once) == NULL)) {
      peer->at_once = 0;
    }
    return;
  }
  peer->later = strstr(peer->line, again) != NULL;
  LeaveOut(peer);
}

static void Receive(struct Peer* peer, bool is_held) {
  const ssize_t got =
      recv(peer->fd, peer->line + peer->length, kLineMax - peer->length, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    LeaveOut(peer);
    return;
  }
  peer->length += (size_t)got;
  char* const end = memchr(peer->line, '\n', peer->length);
  if (end == NULL) {
    if (peer->length == kLineMax) LeaveOut(peer);
    return;
  }
  *end = '\0';
  Understand(peer, is_held);
}

/* Until all that were sent something have answered. The rest is left out. */
static void Await(struct Asking* asking, int64_t until, bool is_held) {
  for (;;) {
    struct pollfd polled[kPeersMax];
    int which[kPeersMax];
    nfds_t count = 0;
    for (int i = 0; i < asking->count; ++i) {
      if (!asking->peers[i].waiting) continue;
      which[count] = i;
      polled[count++] = (struct pollfd){asking->peers[i].fd, POLLIN, 0};
    }
    if (count == 0) return;
    const int64_t left = until - SpillwayNow();
    if (left <= 0) break;
    if (poll(polled, count, (int)(left / 1000000 + 1)) < 0 && errno != EINTR) break;
    for (nfds_t i = 0; i < count; ++i) {
      if (polled[i].revents != 0) Receive(&asking->peers[which[i]], is_held);
    }
  }
  for (int i = 0; i < asking->count; ++i) {
    if (asking->peers[i].waiting) LeaveOut(&asking->peers[i]);
  }
}

/* --- the ask --- */

static int64_t Earlier(int64_t a, int64_t b) { return a < b ? a : b; }

/* A cache answers HELD in well under a millisecond. One that hangs must leave time for others. */
static int64_t HeldUntil(int64_t until) {
  const int64_t now = SpillwayNow();
  return Earlier(now + 1000000000, now + (until - now) / 2);
}

static void Connect(struct Asking* asking, int64_t until) {
  asking->count = 0;
  asking->busy = false;
  SpillwaySearchBegin(&asking->search, asking->device);
  while (asking->count < kPeersMax) {
    const int fd = SpillwaySearchNext(&asking->search);
    if (fd == -1) break;
    asking->busy = asking->busy || fd == -2;
    if (fd < 0) continue;
    struct Peer* const peer = &asking->peers[asking->count++];
    *peer = (struct Peer){.fd = fd};
    Send(peer, "HELD", asking->device, 0, 0, false);
  }
  SpillwaySearchEnd(&asking->search);
  Await(asking, HeldUntil(until), true);
  for (int i = 0; i < asking->count; ++i) asking->peers[i].held = asking->peers[i].number;
}

struct Asking* SpillwayAskOpen(const char* device, int64_t until) {
  struct Asking* const asking =
      mmap(NULL, sizeof *asking, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (asking == MAP_FAILED) return NULL;
  memcpy(asking->device, device, sizeof asking->device);
  Connect(asking, until);
  if (asking->count > 0 || asking->busy) return asking;
  SpillwayAskClose(asking);
  return NULL;
}

void SpillwayAskClose(struct Asking* asking) {
  for (int i = 0; i < asking->count; ++i) LeaveOut(&asking->peers[i]);
  munmap(asking, sizeof *asking);
}

uint64_t SpillwayAskAtOnce(const struct Asking* asking) {
  uint64_t bytes = 0;
  for (int i = 0; i < asking->count; ++i) {
    if (asking->peers[i].fd >= 0) bytes += asking->peers[i].at_once;
  }
  return bytes;
}

static uint64_t Left(const struct Peer* peer) {
  if (peer->fd < 0 || peer->spent || peer->held <= peer->freed) return 0;
  return peer->held - peer->freed;
}

/* Shares of `bytes` in proportion to what each still holds. False: none holds anything. */
static bool Share(struct Asking* asking, uint64_t bytes) {
  uint64_t all = 0;
  for (int i = 0; i < asking->count; ++i) all += Left(&asking->peers[i]);
  if (all == 0) return false;
  for (int i = 0; i < asking->count; ++i) {
    struct Peer* const peer = &asking->peers[i];
    const uint64_t left = Left(peer);
    const double share = (double)bytes * ((double)left / (double)all);
    peer->wanted = left == 0 ? 0 : (uint64_t)share + 1;
    if (peer->wanted > left) peer->wanted = left;
  }
  return true;
}

/* A rest of time for the answer to arrive. */
static int64_t MillisecondsTo(int64_t until) {
  const int64_t left = (until - SpillwayNow()) / 1000000;
  return left > 20 ? left - 10 : left / 2;
}

static void AskForShares(struct Asking* asking, int64_t until) {
  for (int i = 0; i < asking->count; ++i) {
    struct Peer* const peer = &asking->peers[i];
    if (peer->wanted == 0 || peer->fd < 0) continue;
    peer->number = 0;
    Send(peer, "ASK", asking->device, peer->wanted, MillisecondsTo(until), true);
  }
  Await(asking, until, false);
}

static void TakeAnswers(struct Asking* asking, struct Given* given) {
  for (int i = 0; i < asking->count; ++i) {
    struct Peer* const peer = &asking->peers[i];
    if (peer->wanted == 0 || peer->fd < 0) continue;
    peer->freed += peer->number;
    given->freed += peer->number;
    peer->spent = peer->number < peer->wanted;
  }
}

struct Given SpillwayAsk(struct Asking* asking, uint64_t bytes, uint64_t keep, int64_t until) {
  enum { kRounds = 4 };
  struct Given given = {0, 0, asking->busy};
  bool reached = false;
  for (int i = 0; i < asking->count; ++i) reached = reached || asking->peers[i].fd >= 0;
  if (!reached) {
    for (int i = 0; i < asking->count; ++i) given.more = given.more || asking->peers[i].later;
    if (!given.more) return given;
    Connect(asking, until);
    given.more = true;
  }
  /* All promise not to take what another gives, before any of them gives. */
  for (int i = 0; i < asking->count; ++i) {
    struct Peer* const peer = &asking->peers[i];
    peer->wanted = 0;
    if (peer->fd < 0) continue;
    Send(peer, "HOLD", asking->device, keep, MillisecondsTo(until), true);
  }
  Await(asking, HeldUntil(until), false);
  for (int i = 0; i < asking->count; ++i) given.caches += asking->peers[i].fd >= 0;
  for (int round = 0; round < kRounds && given.freed < bytes; ++round) {
    if (SpillwayNow() >= until || !Share(asking, bytes - given.freed)) break;
    AskForShares(asking, until);
    TakeAnswers(asking, &given);
  }
  if (given.caches > 0) {
    given.more = asking->busy;
    for (int i = 0; i < asking->count; ++i) given.more = given.more || Left(&asking->peers[i]) > 0;
  }
  return given;
}
