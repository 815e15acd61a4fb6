// Ranks as threads of the test's process, each with a runtime of its own over the local transport.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <exception>
#include <functional>
#include <iostream>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "weft/fabric/job.hpp"
#include "weft/weft.hpp"

namespace weft::test {

/// Runs `body(runtime)` on `ranks` ranks and fails the test for what any of them throws.
inline void on_ranks(int ranks, const std::function<void(Runtime&)>& body,
                     const RuntimeOptions& options = {}, int nodes = 1) {
  auto jobs = fabric::make_local_job(ranks, nodes);
  std::vector<std::string> failures(static_cast<std::size_t>(ranks));
  {
    std::vector<std::jthread> threads;
    for (int r = 0; r < ranks; ++r) {
      threads.emplace_back([&, r] {
        const auto index = static_cast<std::size_t>(r);
        RuntimeOptions mine = options;
        mine.job = jobs[index].get();
        try {
          Runtime runtime(mine);
          body(runtime);
          runtime.barrier();
        } catch (const std::exception& error) {
          // Said at once: the other ranks may wait for this one until the watchdog comes.
          std::cerr << "rank " << r << ": " << error.what() << std::endl;
          failures[index] = error.what();
        }
      });
    }
  }
  for (int r = 0; r < ranks; ++r) {
    EXPECT_EQ(failures[static_cast<std::size_t>(r)], "") << "rank " << r;
  }
}

/// Runs `body(thread)` on `count` threads.
inline void on_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::jthread> threads;
  for (int t = 0; t < count; ++t) threads.emplace_back([&body, t] { body(t); });
}

/// `bytes` bytes that depend on `seed` and their place.
inline std::vector<std::byte> pattern(std::size_t bytes, uint32_t seed) {
  std::vector<std::byte> data(bytes);
  uint32_t x = seed * 2654435761U + 1;
  for (auto& byte : data) {
    x = x * 1664525U + 1013904223U;
    byte = static_cast<std::byte>(x >> 24);
  }
  return data;
}

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
template <class T>
std::span<std::byte> writable(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

}  // namespace weft::test
