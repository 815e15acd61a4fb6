// Loops of reductions with vectors and without. Compiled as the library is in releases
// (types.cmake), or there were no vectors.
#include "mpi/types/op_loops.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace weft::mpi::test {
namespace {

/// What vectors could make of it: one function of several, and sums that would round otherwise.
template <class T>
struct Picky {
  [[gnu::always_inline]] T operator()(T a, T b) const noexcept {
    return static_cast<T>(b < a ? a * b + a : b - a);
  }
};

#if defined(__x86_64__)
TEST(ReduceLoops, GiveTheSameWithVectors) {
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "this processor has no vectors of 32 bytes";
  std::mt19937_64 random(5);
  const auto compare = [&]<class T>(T) {
    for (const int64_t count : {0, 1, 3, 4, 7, 8, 31, 32, 33, 63, 64, 65, 127, 128, 129, 300}) {
      std::uniform_real_distribution<double> reals(-100, 100);
      std::vector<T> values(3 * 301);
      for (T& value : values) value = static_cast<T>(reals(random));
      std::vector<T> plain(301), wide(301);
      T* const in_place = values.data() + 602;
      reduce_loop<T, Picky<T>>(values.data(), values.data() + 301, plain.data(), count);
      wide_reduce_loop<T, Picky<T>>(values.data(), values.data() + 301, wide.data(), count);
      EXPECT_EQ(std::memcmp(plain.data(), wide.data(), plain.size() * sizeof(T)), 0) << count;
      std::vector<T> kept(in_place, in_place + 301);
      reduce_loop<T, Picky<T>>(values.data(), in_place, in_place, count);
      wide_reduce_loop<T, Picky<T>>(values.data(), kept.data(), kept.data(), count);
      EXPECT_EQ(std::memcmp(in_place, kept.data(), kept.size() * sizeof(T)), 0) << count;
    }
  };
  compare(double{});
  compare(float{});
  compare(int64_t{});
  compare(int32_t{});
  compare(int16_t{});
  compare(int8_t{});
}
#endif

}  // namespace
}  // namespace weft::mpi::test
