// What the point-to-point programs share: checks that count, from any thread, and data that tells
// who sent it.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <thread>
#include <vector>

inline std::atomic<int> g_failures{0};
inline int g_rank = 0;
inline int g_size = 0;

/// Counts a failure and tells it, the first twenty.
[[gnu::format(printf, 2, 3)]] inline bool expect(bool holds, const char* what, ...) {
  if (holds) return true;
  if (g_failures.fetch_add(1) < 20) {
    char text[400];
    va_list values;
    va_start(values, what);
    std::vsnprintf(text, sizeof text, what, values);
    va_end(values);
    std::printf("rank %d: failed: %s\n", g_rank, text);
    std::fflush(stdout);
  }
  return false;
}

inline void begin(int* argc, char*** argv, int level = MPI_THREAD_MULTIPLE) {
  int provided = 0;
  MPI_Init_thread(argc, argv, level, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &g_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &g_size);
  expect(provided >= level, "thread level %d of %d", provided, level);
}

inline int finish() {
  MPI_Finalize();
  return g_failures.load() == 0 ? 0 : 1;
}

inline int class_of(int code) {
  int result = -1;
  MPI_Error_class(code, &result);
  return result;
}

inline void expect_class(int code, int wanted, const char* what) {
  const int found = class_of(code);
  expect(found == wanted, "%s: error class %d in place of %d", what, found, wanted);
}

/// The byte at place `i` of a message; different messages differ early.
inline unsigned char pattern(uint32_t message, std::size_t i) {
  const uint32_t mixed = (message * 2654435761U) ^ (static_cast<uint32_t>(i) * 40503U);
  return static_cast<unsigned char>(mixed >> 13);
}
inline void fill_pattern(std::vector<unsigned char>& bytes, uint32_t message) {
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = pattern(message, i);
}
inline bool has_pattern(const unsigned char* bytes, std::size_t size, uint32_t message) {
  for (std::size_t i = 0; i < size; ++i) {
    if (bytes[i] != pattern(message, i)) return false;
  }
  return true;
}

inline int count_of(const MPI_Status& status, MPI_Datatype type) {
  int count = -1;
  MPI_Get_count(&status, type, &count);
  return count;
}

/// Runs `body(number)` in that many threads.
inline void in_threads(int threads, const std::function<void(int)>& body) {
  std::vector<std::thread> all;
  all.reserve(static_cast<std::size_t>(threads));
  for (int i = 0; i < threads; ++i) all.emplace_back(body, i);
  for (std::thread& thread : all) thread.join();
}
