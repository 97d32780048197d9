// Marks what libspillway.so shows to the world; everything else stays hidden.
#pragma once

#if defined(__GNUC__)
#define SPILLWAY_API __attribute__((visibility("default")))
#else
#define SPILLWAY_API
#endif
