/* SPDX-License-Identifier: Apache-2.0
 * What libspillway_ask.so adds to a call that succeeds, and to one that fails where no cache
 * listens:
 *
 *   bench/ask_calls [LIBRARY]
 *
 * Calls an empty driver by the address that dlsym gives, without the library and then, in this
 * program started again, with it. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kRounds = 21, kCalls = 1000000, kFailing = 2000 };

static double Now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int Less(const void* a, const void* b) {
  const double x = *(const double*)a;
  const double y = *(const double*)b;
  return (x > y) - (x < y);
}

/* Prints the median of the rounds in nanoseconds, and of failing calls the median and the 99th of
 * 100 in microseconds. */
static int Measure(void) {
  void* const driver = dlopen(ASK_DRIVER, RTLD_NOW | RTLD_LOCAL);
  if (driver == NULL) return 1;
  int (*const alloc)(uint64_t*, size_t) =
      (int (*)(uint64_t*, size_t))(uintptr_t)dlsym(driver, "cuMemAlloc_v2");
  int* const answer = dlsym(driver, "bench_answer");
  static double rounds[kRounds];
  static double failing[kFailing];
  uint64_t at = 0;
  for (int round = 0; round < kRounds; ++round) {
    const double began = Now();
    for (int i = 0; i < kCalls; ++i) alloc(&at, 4096);
    rounds[round] = (Now() - began) / kCalls * 1e9;
  }
  *answer = 2;
  for (int i = 0; i < kFailing; ++i) {
    const double began = Now();
    alloc(&at, 4096);
    failing[i] = (Now() - began) * 1e6;
  }
  qsort(rounds, kRounds, sizeof *rounds, &Less);
  qsort(failing, kFailing, sizeof *failing, &Less);
  printf("%.2f %.2f %.2f\n", rounds[kRounds / 2], failing[kFailing / 2],
         failing[kFailing * 99 / 100]);
  return 0;
}

static int Run(const char* program, const char* library, double figures[3]) {
  char command[2048];
  char folder[] = "/tmp/spillway-bench-XXXXXX"; /* A run directory in which nothing listens. */
  if (mkdtemp(folder) == NULL) return 0;
  snprintf(command, sizeof command, "SPILLWAY_RUN_DIR='%s' LD_PRELOAD='%s' '%s' --measure", folder,
           library, program);
  FILE* const out = popen(command, "r");
  const int read =
      out == NULL ? 0 : fscanf(out, "%lf %lf %lf", &figures[0], &figures[1], &figures[2]);
  if (out != NULL) pclose(out);
  rmdir(folder);
  return read == 3;
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "--measure") == 0) return Measure();
  double without[3];
  double with[3];
  const char* const library = argc > 1 ? argv[1] : ASK_LIBRARY;
  if (!Run(argv[0], "", without) || !Run(argv[0], library, with)) {
    fprintf(stderr, "could not be measured\n");
    return 1;
  }
  printf("a call that succeeds: %.1f ns without, %.1f ns with the library: %.1f ns more\n",
         without[0], with[0], with[0] - without[0]);
  printf("a call that fails, no cache listens: %.1f us, p99 %.1f us\n", with[1], with[2]);
  return 0;
}
