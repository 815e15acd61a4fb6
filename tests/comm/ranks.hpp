// Ranks as threads of the test's process, each with a runtime of its own, over the local transport
// unless the configuration says otherwise.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "weft/weft.hpp"

namespace weft::test {

/// Runs `body(runtime)` on `ranks` ranks and fails the test for what any of them throws. The job is
/// on `nodes` nodes, or on as many more as CTest asks for (COMM_TEST_NODES) where the test asks for
/// one; and in the trouble that CTest runs a whole program under (COMM_TEST_UNDER;
/// tests/comm/CMakeLists.txt): delay, reorder, refuse, stop, everything, or none.
void on_ranks(int ranks, const std::function<void(Runtime&)>& body,
              const RuntimeOptions& options = {}, int nodes = 1);

/// Runs `body(thread)` on `count` threads.
void on_threads(int count, const std::function<void(int)>& body);

/// `bytes` bytes that depend on `seed` and their place.
std::vector<std::byte> pattern(std::size_t bytes, uint32_t seed);

/// Everybody's `mine`, by rank. All ranks call it.
std::vector<fabric::MemoryKey> keys_of_all(Runtime& rt, const Region& mine);

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
template <class T>
std::span<std::byte> writable(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

}  // namespace weft::test
