// Checks that a test program counts, and tells where they failed.
#pragma once

#include <mpi.h>

#include <cstdio>
#include <cstring>
#include <string>

inline int failures = 0;

#define WEFT_CHECK(condition)                                             \
  do {                                                                    \
    if (!(condition)) {                                                   \
      std::printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                         \
    }                                                                     \
  } while (false)

/// The class of an error code.
inline int class_of(int code) {
  int found = -1;
  if (MPI_Error_class(code, &found) != MPI_SUCCESS) return -1;
  return found;
}

#define WEFT_CHECK_CLASS(expected, call)                                                       \
  do {                                                                                         \
    const int got = class_of(call);                                                            \
    if (got != (expected)) {                                                                   \
      std::printf("%s:%d: %s: class %d, not %s\n", __FILE__, __LINE__, #call, got, #expected); \
      ++failures;                                                                              \
    }                                                                                          \
  } while (false)

/// Ends main: this rank's failures, so that the job fails with any of them.
inline int result() {
  if (failures > 0) std::printf("%d checks failed\n", failures);
  return failures == 0 ? 0 : 1;
}
