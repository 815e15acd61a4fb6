// Elements that are combined as they come: in pieces, wherever these lie.
#include "mpi/messages/combining.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace weft::mpi::test {
namespace {

/// Not the same the other way around, and its own of each place.
void take_from_twice(const void* in, const void* with, void* out, int64_t count) {
  ASSERT_EQ(reinterpret_cast<uintptr_t>(in) % alignof(int64_t), 0U);
  for (int64_t i = 0; i < count; ++i) {
    static_cast<int64_t*>(out)[i] =
        2 * static_cast<const int64_t*>(in)[i] - static_cast<const int64_t*>(with)[i];
  }
}

class Combiners : public testing::Test {
 protected:
  static constexpr std::size_t kCount = 3'001;  // longer than a stretch of the loop

  void SetUp() override {
    for (std::size_t i = 0; i < kCount; ++i) {
      theirs.push_back(static_cast<int64_t>(1'000'000 + i));
      mine.push_back(static_cast<int64_t>(3 * i));
      expected.push_back(2 * theirs.back() - mine.back());
    }
  }
  /// `shift`: how far behind a multiple of 64 bytes the message lies; cut into such pieces.
  void combine(const std::vector<int64_t>& base, std::vector<int64_t>& into, std::size_t shift,
               std::size_t piece) {
    std::vector<std::byte> room(kCount * sizeof(int64_t) + 128);
    const std::size_t begin = 64 - reinterpret_cast<uintptr_t>(room.data()) % 64 + shift;
    std::span<const std::byte> left = std::span(room).subspan(begin, kCount * sizeof(int64_t));
    std::memcpy(room.data() + begin, theirs.data(), left.size());
    const bool in_place = base.data() == into.data();
    const Combining how{
        .loop = take_from_twice,
        .base = in_place ? nullptr : reinterpret_cast<const std::byte*>(base.data()),
        .element = sizeof(int64_t)};
    Combiner combiner(how, reinterpret_cast<std::byte*>(into.data()));
    while (!left.empty()) {
      const std::size_t size = std::min(piece, left.size());
      combiner.take(left.first(size));
      left = left.subspan(size);
    }
  }

  std::vector<int64_t> theirs, mine, expected;
};

TEST_F(Combiners, CombineInPlaceAndBeside) {
  for (const std::size_t shift : {0, 8, 4, 1}) {
    for (const std::size_t piece : {64, 4'096, 16'384, 1 << 20}) {
      std::vector<int64_t> at = mine;
      combine(at, at, shift, piece);
      ASSERT_EQ(at, expected) << shift << ", " << piece;
      std::vector<int64_t> beside(kCount, -1);
      const std::vector<int64_t> base = mine;
      combine(base, beside, shift, piece);
      ASSERT_EQ(beside, expected) << shift << ", " << piece;
      ASSERT_EQ(base, mine);
    }
  }
}

TEST_F(Combiners, LeaveOutHalfAnElement) {
  const Combining how{.loop = take_from_twice, .base = nullptr, .element = sizeof(int64_t)};
  std::vector<int64_t> at{5, 6, 7};
  Combiner(how, reinterpret_cast<std::byte*>(at.data()))
      .take({reinterpret_cast<const std::byte*>(theirs.data()), 2 * sizeof(int64_t) + 3});
  EXPECT_EQ(at, (std::vector<int64_t>{2 * theirs[0] - 5, 2 * theirs[1] - 6, 7}));
}

}  // namespace
}  // namespace weft::mpi::test
