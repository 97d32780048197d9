// SPDX-License-Identifier: Apache-2.0
/* Checks for the C programs, which go on when one fails and count at the end. */
#pragma once

#include <stdio.h>
#include <string.h>

#include "spillway/spillway.h"

static int passed = 0;
static int failed = 0;

#define CHECK(condition)                                                               \
  do {                                                                                 \
    if (condition) {                                                                   \
      ++passed;                                                                        \
    } else {                                                                           \
      ++failed;                                                                        \
      printf("FAILED: %s:%d: %s (last message: %s)\n", __FILE__, __LINE__, #condition, \
             spillway_error_message());                                                \
    }                                                                                  \
  } while (0)

#define OK(call) CHECK((call) == SPILLWAY_OK)
#define REFUSED(call, why) CHECK((call) == (why) && spillway_error_message()[0] != '\0')
#define BAD(call) REFUSED(call, SPILLWAY_INVALID_ARGUMENT)

static spillway_bytes T(const char* text) { return spillway_text(text); }

static int HasText(const char* text, const char* part) {
  return text != NULL && strstr(text, part) != NULL;
}

static int Finish(void) {
  printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
