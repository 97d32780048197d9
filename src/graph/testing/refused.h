// SPDX-License-Identifier: Apache-2.0
// Input that a step graph must refuse, and the message for it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spillway/result.h"

#define EXPECT_REFUSED(said, why)                                     \
  do {                                                                \
    const auto& answer = (said);                                      \
    EXPECT_FALSE(answer.has_value());                                 \
    if (!answer) {                                                    \
      EXPECT_EQ(answer.error().code, Code::kInvalidArgument);         \
      EXPECT_THAT(answer.error().message, ::testing::HasSubstr(why)); \
    }                                                                 \
  } while (false)
