// external32 against bytes that were worked out by hand, and there and back again.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <vector>

#include "mpi/failure.hpp"
#include "mpi/process.hpp"
#include "types_reference.hpp"

namespace weft::mpi::test {
namespace {

class TypesExternal : public testing::Test {
 protected:
  void SetUp() override { open_datatypes(); }
  void TearDown() override { close_datatypes(); }
};

using Bytes = std::vector<uint8_t>;

Bytes external(MPI_Datatype type, const void* data, MPI_Count count) {
  MPI_Count size;
  calls::Pack_external_size("external32", count, type, &size);
  Bytes packed(static_cast<std::size_t>(size));
  MPI_Count position = 0;
  calls::Pack_external("external32", data, count, type, packed.data(), size, &position);
  EXPECT_EQ(position, size);
  return packed;
}

/// Packs values, compares, and unpacks them again.
template <class T>
void expect_bytes(MPI_Datatype type, std::initializer_list<T> values, const Bytes& expected) {
  const std::vector<T> given(values);
  const auto count = static_cast<MPI_Count>(given.size());
  EXPECT_EQ(external(type, given.data(), count), expected);
  std::vector<T> back(given.size());
  MPI_Count position = 0;
  calls::Unpack_external("external32", expected.data(), static_cast<MPI_Count>(expected.size()),
                         &position, back.data(), count, type);
  EXPECT_EQ(position, static_cast<MPI_Count>(expected.size()));
  for (std::size_t i = 0; i < given.size(); ++i) EXPECT_EQ(back[i], given[i]);
}

TEST_F(TypesExternal, Integers) {
  expect_bytes<int>(MPI_INT, {1, -2}, {0, 0, 0, 1, 0xff, 0xff, 0xff, 0xfe});
  expect_bytes<short>(MPI_SHORT, {0x1234}, {0x12, 0x34});
  expect_bytes<long>(MPI_LONG, {-2, 0x01020304}, {0xff, 0xff, 0xff, 0xfe, 1, 2, 3, 4});
  expect_bytes<unsigned long>(MPI_UNSIGNED_LONG, {0xfffffffeUL}, {0xff, 0xff, 0xff, 0xfe});
  expect_bytes<long long>(MPI_LONG_LONG, {-2}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe});
  expect_bytes<MPI_Aint>(MPI_AINT, {5}, {0, 0, 0, 0, 0, 0, 0, 5});
  expect_bytes<char>(MPI_CHAR, {'a'}, {0x61});
  expect_bytes<wchar_t>(MPI_WCHAR, {L'\u20ac'}, {0x20, 0xac});
  expect_bytes<int32_t>(MPI_LOGICAL, {1, 0}, {0, 0, 0, 1, 0, 0, 0, 0});
  const bool truths[] = {true, false};
  EXPECT_EQ(external(MPI_C_BOOL, truths, 2), (Bytes{1, 0}));
}

TEST_F(TypesExternal, FloatingPoint) {
  expect_bytes<float>(MPI_FLOAT, {1.0F, -2.5F}, {0x3f, 0x80, 0, 0, 0xc0, 0x20, 0, 0});
  expect_bytes<double>(MPI_DOUBLE, {1.0}, {0x3f, 0xf0, 0, 0, 0, 0, 0, 0});
  // Quad: 15 bits of exponent, 112 of fraction, nothing implied but the leading one.
  expect_bytes<long double>(MPI_LONG_DOUBLE, {1.5L},
                            {0x3f, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  expect_bytes<long double>(MPI_LONG_DOUBLE, {-0.0L},
                            {0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  expect_bytes<long double>(MPI_LONG_DOUBLE, {std::numeric_limits<long double>::infinity()},
                            {0x7f, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  const float number[] = {1.0F, -2.5F};
  EXPECT_EQ(external(MPI_C_FLOAT_COMPLEX, number, 1), (Bytes{0x3f, 0x80, 0, 0, 0xc0, 0x20, 0, 0}));
  const uint16_t half[] = {0x3c00};  // 1.0
  EXPECT_EQ(external(MPI_REAL2, half, 1), (Bytes{0x3c, 0}));
}

TEST_F(TypesExternal, WhatDoesNotFitIsRefused) {
  const long large[] = {0x100000000};
  std::array<std::byte, 4> packed;
  MPI_Count position = 0;
  try {
    calls::Pack_external("external32", large, 1, MPI_LONG, packed.data(), 4, &position);
    ADD_FAILURE() << "five bytes in four";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), MPI_ERR_CONVERSION);
  }
}

TEST_F(TypesExternal, DerivedTypesHaveNoGaps) {
  struct Record {
    char letter;
    double number;
    short small[2];
  };
  const int lengths[] = {1, 1, 2};
  const MPI_Aint places[] = {offsetof(Record, letter), offsetof(Record, number),
                             offsetof(Record, small)};
  const MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT};
  MPI_Datatype record;
  calls::Type_create_struct(3, lengths, places, types, &record);
  calls::Type_commit(&record);
  Record records[2] = {{'x', 1.0, {1, 2}}, {'y', 2.0, {3, 4}}};
  const Bytes expected = {0x78, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2,
                          0x79, 0x40, 0,    0, 0, 0, 0, 0, 0, 0, 3, 0, 4};
  EXPECT_EQ(external(record, records, 2), expected);
  Record back[2] = {};
  MPI_Count position = 0;
  calls::Unpack_external("external32", expected.data(), 26, &position, back, 2, record);
  EXPECT_EQ(back[1].letter, 'y');
  EXPECT_EQ(back[1].number, 2.0);
  EXPECT_EQ(back[0].small[1], 2);
  calls::Type_free(&record);
}

TEST_F(TypesExternal, Pairs) {
  struct {
    double value;
    int index;
  } pairs[] = {{1.0, 7}, {2.0, 8}};
  EXPECT_EQ(external(MPI_DOUBLE_INT, pairs, 2), (Bytes{0x3f, 0xf0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7,
                                                       0x40, 0,    0, 0, 0, 0, 0, 0, 0, 0, 0, 8}));
}

}  // namespace
}  // namespace weft::mpi::test
