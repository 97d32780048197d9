/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "preload/preload.h"

/* Calls can come before the constructor, from those of other libraries: then they read it. */
static struct Settings settings;
static int settings_read; /* 0: no, 1: being read, 2: yes. */

/* Where it is too long, a path is as if it were not set: no socket has such a name. */
static void Copy(char* to, size_t room, const char* from) {
  const size_t length = from == NULL ? 0 : strlen(from);
  if (length == 0 || length >= room) return;
  memcpy(to, from, length + 1);
}

static int64_t Milliseconds(const char* text, int64_t otherwise) {
  enum { kMost = 10000 };
  int64_t ms = 0;
  if (text == NULL || *text == '\0') return otherwise;
  for (; *text != '\0'; ++text) {
    if (*text < '0' || *text > '9') return otherwise;
    ms = ms * 10 + (*text - '0');
    if (ms > kMost) return kMost;
  }
  return ms;
}

static void Read(void) {
  int expected = 0;
  if (!__atomic_compare_exchange_n(&settings_read, &expected, 1, false, __ATOMIC_ACQ_REL,
                                   __ATOMIC_ACQUIRE)) {
    return; /* Whoever comes meanwhile has the settings of a program that sets none. */
  }
  const char* const show = getenv("SPILLWAY_ASK_SHOW");
  const char* const told = getenv("SPILLWAY_RUN_DIR");
  settings.wait_ns = Milliseconds(getenv("SPILLWAY_ASK_WAIT"), 2000) * 1000000;
  settings.show = show != NULL && strcmp(show, "1") == 0;
  settings.off = settings.wait_ns == 0;
  settings.only_run_dir = told != NULL && *told != '\0';
  Copy(settings.log, sizeof settings.log, getenv("SPILLWAY_ASK_LOG"));
  Copy(settings.run_dir, sizeof settings.run_dir, told);
  Copy(settings.xdg_dir, sizeof settings.xdg_dir, getenv("XDG_RUNTIME_DIR"));
  __atomic_store_n(&settings_read, 2, __ATOMIC_RELEASE);
}

const struct Settings* SpillwaySettings(void) {
  static const struct Settings off = {.off = true};
  if (__atomic_load_n(&settings_read, __ATOMIC_ACQUIRE) != 2) Read();
  return __atomic_load_n(&settings_read, __ATOMIC_ACQUIRE) == 2 ? &settings : &off;
}

int64_t SpillwayNow(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* --- the log: lines of text, each in one write --- */

struct Line {
  char text[512];
  size_t length;
};

static void Say(struct Line* line, const char* text) {
  for (; *text != '\0' && line->length < sizeof line->text - 1; ++text) {
    line->text[line->length++] = *text;
  }
}

static void SayNumber(struct Line* line, uint64_t number) {
  char digits[24];
  size_t at = sizeof digits - 1;
  digits[at] = '\0';
  do {
    digits[--at] = (char)('0' + number % 10);
    number /= 10;
  } while (number > 0);
  Say(line, digits + at);
}

/* Milliseconds with three digits after the point. */
static void SayTime(struct Line* line, int64_t ns) {
  const uint64_t us = ns < 0 ? 0 : (uint64_t)ns / 1000;
  SayNumber(line, us / 1000);
  const char point[] = {'.', (char)('0' + us / 100 % 10), (char)('0' + us / 10 % 10),
                        (char)('0' + us % 10), '\0'};
  Say(line, point);
  Say(line, " ms");
}

static void Write(struct Line* line) {
  const bool to_stderr = strcmp(settings.log, "stderr") == 0;
  const int fd = to_stderr ? STDERR_FILENO
                           : open(settings.log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return;
  line->text[line->length++] = '\n';
  if (write(fd, line->text, line->length) < 0) {
    /* The program's own output matters more than ours. */
  }
  if (!to_stderr) close(fd);
}

static void SayProcess(struct Line* line) {
  Say(line, "spillway: pid ");
  SayNumber(line, (uint64_t)getpid());
  Say(line, ": ");
}

/* --- counters, of the process that counted last: a forked child begins anew --- */

static struct {
  int pid;
  uint64_t failed;  /* Calls that answered "out of memory" at first. */
  uint64_t rescued; /* Of them, those that succeeded in the end. */
  uint64_t alone;   /* Of them, those that found no cache. */
  uint64_t given;
  int64_t took_ns;
} counts;

static void CountIn(uint64_t* counter, uint64_t by) {
  __atomic_fetch_add(counter, by, __ATOMIC_RELAXED);
}

void SpillwayCount(const struct Outcome* outcome) {
  const int pid = getpid();
  int counted = __atomic_load_n(&counts.pid, __ATOMIC_RELAXED);
  if (counted != pid && __atomic_compare_exchange_n(&counts.pid, &counted, pid, false,
                                                    __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    uint64_t* const each[] = {&counts.failed, &counts.rescued, &counts.alone, &counts.given};
    for (size_t i = 0; i < sizeof each / sizeof *each; ++i) {
      __atomic_store_n(each[i], 0, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&counts.took_ns, 0, __ATOMIC_RELAXED);
  }
  CountIn(&counts.failed, 1);
  CountIn(&counts.rescued, outcome->code == 0);
  CountIn(&counts.alone, outcome->caches == 0);
  CountIn(&counts.given, outcome->given);
  __atomic_fetch_add(&counts.took_ns, outcome->took_ns, __ATOMIC_RELAXED);
  if (settings.log[0] == '\0' || outcome->caches == 0) return;
  struct Line line = {.length = 0};
  SayProcess(&line);
  Say(&line, outcome->function);
  Say(&line, " of ");
  SayNumber(&line, outcome->bytes);
  Say(&line, outcome->code == 0 ? " bytes: succeeded, " : " bytes: failed, ");
  SayNumber(&line, outcome->given);
  Say(&line, " bytes given by ");
  SayNumber(&line, outcome->caches);
  Say(&line, outcome->caches == 1 ? " cache, " : " caches, ");
  SayNumber(&line, outcome->asks);
  Say(&line, outcome->asks == 1 ? " ask, " : " asks, ");
  SayTime(&line, outcome->took_ns);
  Write(&line);
}

__attribute__((constructor)) static void Begin(void) { (void)SpillwaySettings(); }

__attribute__((destructor)) static void End(void) {
  if (SpillwaySettings()->log[0] == '\0' || counts.pid != getpid() || counts.failed == 0) return;
  struct Line line = {.length = 0};
  SayProcess(&line);
  SayNumber(&line, counts.rescued);
  Say(&line, " of ");
  SayNumber(&line, counts.failed);
  Say(&line, " failed allocations succeeded after asking, ");
  SayNumber(&line, counts.alone);
  Say(&line, " found no cache; ");
  SayNumber(&line, counts.given);
  Say(&line, " bytes given, ");
  SayTime(&line, counts.took_ns);
  Write(&line);
}
