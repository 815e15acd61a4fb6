// What types tell of themselves: envelope and contents, names, predefined sizes; look-ups by size,
// precision, value and index; and the error class of each wrong argument.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "mpi/failure.hpp"
#include "mpi/process.hpp"
#include "mpi/status.hpp"
#include "types_reference.hpp"

namespace weft::mpi::test {
namespace {

class TypesArguments : public testing::Test {
 protected:
  void SetUp() override { open_datatypes(); }
  void TearDown() override { close_datatypes(); }
};

struct Contents {
  int combiner = 0;
  std::vector<int> integers;
  std::vector<MPI_Aint> addresses;
  std::vector<MPI_Count> counts;
  std::vector<MPI_Datatype> types;
  bool operator==(const Contents&) const = default;
};

Contents contents_of(MPI_Datatype type) {
  MPI_Count ints;
  MPI_Count addresses;
  MPI_Count counts;
  MPI_Count types;
  Contents found;
  calls::Type_get_envelope_c(type, &ints, &addresses, &counts, &types, &found.combiner);
  found.integers.resize(static_cast<std::size_t>(ints));
  found.addresses.resize(static_cast<std::size_t>(addresses));
  found.counts.resize(static_cast<std::size_t>(counts));
  found.types.resize(static_cast<std::size_t>(types));
  calls::Type_get_contents_c(type, ints, addresses, counts, types, found.integers.data(),
                             found.addresses.data(), found.counts.data(), found.types.data());
  if (counts == 0) {
    int plain[4];
    calls::Type_get_envelope(type, &plain[0], &plain[1], &plain[2], &plain[3]);
    EXPECT_EQ(plain[0], ints);
    EXPECT_EQ(plain[1], addresses);
    EXPECT_EQ(plain[2], types);
    EXPECT_EQ(plain[3], found.combiner);
  }
  return found;
}

/// Expects contents, and frees the type.
void expect_contents(MPI_Datatype type, const Contents& expected) {
  EXPECT_EQ(contents_of(type), expected) << "combiner " << expected.combiner;
  calls::Type_free(&type);
}

TEST_F(TypesArguments, ContentsAreWhatWasGiven) {
  MPI_Datatype type;
  calls::Type_contiguous(5, MPI_INT, &type);
  expect_contents(type, {MPI_COMBINER_CONTIGUOUS, {5}, {}, {}, {MPI_INT}});
  calls::Type_vector(2, 3, 4, MPI_CHAR, &type);
  expect_contents(type, {MPI_COMBINER_VECTOR, {2, 3, 4}, {}, {}, {MPI_CHAR}});
  calls::Type_create_hvector(2, 3, 40, MPI_CHAR, &type);
  expect_contents(type, {MPI_COMBINER_HVECTOR, {2, 3}, {40}, {}, {MPI_CHAR}});
  const int lengths[] = {1, 2};
  const int places[] = {7, -8};
  const MPI_Aint bytes[] = {70, -80};
  calls::Type_indexed(2, lengths, places, MPI_INT, &type);
  expect_contents(type, {MPI_COMBINER_INDEXED, {2, 1, 2, 7, -8}, {}, {}, {MPI_INT}});
  calls::Type_create_hindexed(2, lengths, bytes, MPI_INT, &type);
  expect_contents(type, {MPI_COMBINER_HINDEXED, {2, 1, 2}, {70, -80}, {}, {MPI_INT}});
  calls::Type_create_indexed_block(2, 3, places, MPI_INT, &type);
  expect_contents(type, {MPI_COMBINER_INDEXED_BLOCK, {2, 3, 7, -8}, {}, {}, {MPI_INT}});
  calls::Type_create_hindexed_block(2, 3, bytes, MPI_INT, &type);
  expect_contents(type, {MPI_COMBINER_HINDEXED_BLOCK, {2, 3}, {70, -80}, {}, {MPI_INT}});
  const MPI_Datatype types[] = {MPI_INT, MPI_DOUBLE};
  calls::Type_create_struct(2, lengths, bytes, types, &type);
  expect_contents(type, {MPI_COMBINER_STRUCT, {2, 1, 2}, {70, -80}, {}, {MPI_INT, MPI_DOUBLE}});
  calls::Type_create_resized(MPI_INT, -4, 16, &type);
  expect_contents(type, {MPI_COMBINER_RESIZED, {}, {-4, 16}, {}, {MPI_INT}});
  calls::Type_dup(MPI_INT, &type);
  expect_contents(type, {MPI_COMBINER_DUP, {}, {}, {}, {MPI_INT}});
  const int sizes[] = {4, 5};
  const int subsizes[] = {2, 3};
  const int starts[] = {1, 2};
  calls::Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_C, MPI_INT, &type);
  expect_contents(type,
                  {MPI_COMBINER_SUBARRAY, {2, 4, 5, 2, 3, 1, 2, MPI_ORDER_C}, {}, {}, {MPI_INT}});
  const int distribs[] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC};
  const int dargs[] = {MPI_DISTRIBUTE_DFLT_DARG, 2};
  const int grid[] = {2, 1};
  calls::Type_create_darray(2, 1, 2, sizes, distribs, dargs, grid, MPI_ORDER_FORTRAN, MPI_INT,
                            &type);
  expect_contents(type,
                  {MPI_COMBINER_DARRAY,
                   {2, 1, 2, 4, 5, distribs[0], distribs[1], dargs[0], 2, 2, 1, MPI_ORDER_FORTRAN},
                   {},
                   {},
                   {MPI_INT}});
}

TEST_F(TypesArguments, LargeCountsComeBackAsSuch) {
  constexpr MPI_Count kLarge = 5'000'000'000;
  MPI_Datatype type;
  calls::Type_vector(2, 3, kLarge, MPI_CHAR, &type);
  int out[4];
  try {
    calls::Type_get_envelope(type, &out[0], &out[1], &out[2], &out[3]);
    ADD_FAILURE() << "the plain form cannot tell";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), MPI_ERR_TYPE);
  }
  expect_contents(type, {MPI_COMBINER_VECTOR, {}, {}, {2, 3, kLarge}, {MPI_CHAR}});
  const MPI_Count sizes[] = {kLarge, 5};
  const MPI_Count subsizes[] = {2, 3};
  const MPI_Count starts[] = {1, 2};
  calls::Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_C, MPI_INT, &type);
  expect_contents(
      type, {MPI_COMBINER_SUBARRAY, {2, MPI_ORDER_C}, {}, {kLarge, 5, 2, 3, 1, 2}, {MPI_INT}});
}

TEST_F(TypesArguments, InnerTypesComeBackAsNewHandles) {
  MPI_Datatype inner;
  calls::Type_vector(2, 3, 4, MPI_CHAR, &inner);
  MPI_Datatype outer;
  calls::Type_contiguous(2, inner, &outer);
  const Contents found = contents_of(outer);
  MPI_Datatype again = found.types.at(0);
  EXPECT_NE(again, inner);
  EXPECT_EQ(contents_of(again).integers, (std::vector<int>{2, 3, 4}));
  calls::Type_free(&inner);
  calls::Type_free(&outer);
  calls::Type_commit(&again);
  calls::Type_free(&again);
}

TEST_F(TypesArguments, KindsByPrecisionAreMadeOnce) {
  MPI_Datatype first;
  MPI_Datatype second;
  calls::Type_create_f90_real(6, MPI_UNDEFINED, &first);
  calls::Type_create_f90_real(6, MPI_UNDEFINED, &second);
  EXPECT_EQ(first, second);
  EXPECT_EQ(any_datatype(first).size(), 4);
  EXPECT_TRUE(any_datatype(first).committed());
  EXPECT_EQ(contents_of(first), (Contents{MPI_COMBINER_F90_REAL, {6, MPI_UNDEFINED}, {}, {}, {}}));
  calls::Type_create_f90_real(15, 300, &second);
  EXPECT_EQ(any_datatype(second).size(), 8);
  calls::Type_create_f90_complex(15, 300, &second);
  EXPECT_EQ(any_datatype(second).size(), 16);
  calls::Type_create_f90_complex(20, MPI_UNDEFINED, &second);
  EXPECT_EQ(any_datatype(second).size(), 32);
  calls::Type_create_f90_integer(9, &second);
  EXPECT_EQ(any_datatype(second).size(), 4);
  EXPECT_EQ(contents_of(second), (Contents{MPI_COMBINER_F90_INTEGER, {9}, {}, {}, {}}));
  EXPECT_THROW(calls::Type_create_f90_integer(50, &second), Failure);
  EXPECT_THROW(calls::Type_create_f90_real(40, 10, &second), Failure);
  EXPECT_THROW(calls::Type_free(&first), Failure);
}

TEST_F(TypesArguments, PairsByValueAndIndex) {
  MPI_Datatype pair;
  calls::Type_get_value_index(MPI_DOUBLE, MPI_INT, &pair);
  EXPECT_EQ(pair, MPI_DOUBLE_INT);
  calls::Type_get_value_index(MPI_REAL, MPI_REAL, &pair);
  EXPECT_EQ(pair, MPI_2REAL);
  calls::Type_get_value_index(MPI_DOUBLE, MPI_INT64_T, &pair);
  ASSERT_NE(pair, MPI_DATATYPE_NULL);
  EXPECT_EQ(any_datatype(pair).extent(), 16);
  EXPECT_EQ(contents_of(pair),
            (Contents{MPI_COMBINER_VALUE_INDEX, {}, {}, {}, {MPI_DOUBLE, MPI_INT64_T}}));
  // No pair, and no error either.
  for (const auto& [value, index] :
       {std::pair{MPI_C_BOOL, MPI_INT}, std::pair{MPI_FLOAT, MPI_FLOAT},
        std::pair{MPI_CHAR, MPI_INT}, std::pair{MPI_INT, MPI_CHAR}, std::pair{MPI_BYTE, MPI_INT},
        std::pair{MPI_C_DOUBLE_COMPLEX, MPI_INT}, std::pair{MPI_DOUBLE_INT, MPI_INT}}) {
    calls::Type_get_value_index(value, index, &pair);
    EXPECT_EQ(pair, MPI_DATATYPE_NULL);
  }
  EXPECT_THROW(calls::Type_get_value_index(MPI_DATATYPE_NULL, MPI_INT, &pair), Failure);
}

TEST_F(TypesArguments, PairsWithoutANameArePredefined) {
  MPI_Datatype pair;
  calls::Type_get_value_index(MPI_DOUBLE, MPI_UINT64_T, &pair);
  ASSERT_NE(pair, MPI_DATATYPE_NULL);
  MPI_Datatype again;
  calls::Type_get_value_index(MPI_DOUBLE, MPI_UINT64_T, &again);
  EXPECT_EQ(pair, again);
  // Ready for use, and a commit changes nothing.
  EXPECT_TRUE(any_datatype(pair).committed());
  calls::Type_commit(&again);
  EXPECT_EQ(pair, again);
  char name[MPI_MAX_OBJECT_NAME];
  int length = -1;
  calls::Type_get_name(pair, name, &length);
  EXPECT_EQ(length, 0);
  try {
    calls::Type_free(&again);
    ADD_FAILURE() << "a predefined datatype was freed";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), MPI_ERR_TYPE);
  }
  EXPECT_EQ(pair, again);
  // As a part of others it keeps its handle; a duplicate is the program's, and is freed.
  MPI_Datatype twin;
  calls::Type_dup(pair, &twin);
  expect_contents(twin, {MPI_COMBINER_DUP, {}, {}, {}, {pair}});
}

TEST_F(TypesArguments, SizesOfNamedTypes) {
  struct Expected {
    MPI_Datatype type;
    const char* name;
    int64_t size;
    int64_t extent;
  };
  const Expected all[] = {
      {MPI_INT, "MPI_INT", 4, 4},
      {MPI_LONG, "MPI_LONG", sizeof(long), sizeof(long)},
      {MPI_WCHAR, "MPI_WCHAR", sizeof(wchar_t), sizeof(wchar_t)},
      {MPI_AINT, "MPI_AINT", 8, 8},
      {MPI_LONG_DOUBLE, "MPI_LONG_DOUBLE", sizeof(long double), sizeof(long double)},
      {MPI_C_LONG_DOUBLE_COMPLEX, "MPI_C_LONG_DOUBLE_COMPLEX", 2 * sizeof(long double),
       2 * sizeof(long double)},
      {MPI_C_BOOL, "MPI_C_BOOL", 1, 1},
      {MPI_LOGICAL, "MPI_LOGICAL", 4, 4},
      {MPI_INTEGER, "MPI_INTEGER", 4, 4},
      {MPI_REAL, "MPI_REAL", 4, 4},
      {MPI_DOUBLE_PRECISION, "MPI_DOUBLE_PRECISION", 8, 8},
      {MPI_DOUBLE_COMPLEX, "MPI_DOUBLE_COMPLEX", 16, 16},
      {MPI_INTEGER16, "MPI_INTEGER16", 16, 16},
      {MPI_REAL2, "MPI_REAL2", 2, 2},
      {MPI_COMPLEX4, "MPI_COMPLEX4", 4, 4},
      {MPI_COMPLEX32, "MPI_COMPLEX32", 32, 32},
      {MPI_LOGICAL16, "MPI_LOGICAL16", 16, 16},
      {MPI_SHORT_INT, "MPI_SHORT_INT", 6, 8},
      {MPI_DOUBLE_INT, "MPI_DOUBLE_INT", 12, 16},
      {MPI_LONG_DOUBLE_INT, "MPI_LONG_DOUBLE_INT", sizeof(long double) + 4,
       2 * sizeof(long double)},
      {MPI_2DOUBLE_PRECISION, "MPI_2DOUBLE_PRECISION", 16, 16},
  };
  for (const Expected& expected : all) {
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    calls::Type_get_name(expected.type, name, &length);
    EXPECT_STREQ(name, expected.name);
    EXPECT_EQ(length, static_cast<int>(std::string(expected.name).size()));
    EXPECT_EQ(any_datatype(expected.type).size(), expected.size) << name;
    EXPECT_EQ(any_datatype(expected.type).extent(), expected.extent) << name;
    int numbers[3];
    int combiner;
    calls::Type_get_envelope(expected.type, &numbers[0], &numbers[1], &numbers[2], &combiner);
    EXPECT_EQ(combiner, MPI_COMBINER_NAMED) << name;
  }
}

TEST_F(TypesArguments, NamesAreKept) {
  MPI_Datatype type;
  calls::Type_contiguous(2, MPI_INT, &type);
  char name[MPI_MAX_OBJECT_NAME];
  int length;
  calls::Type_get_name(type, name, &length);
  EXPECT_EQ(length, 0);
  calls::Type_set_name(type, "two");
  calls::Type_get_name(type, name, &length);
  EXPECT_STREQ(name, "two");
  calls::Type_set_name(type, std::string(500, 'x').c_str());
  calls::Type_get_name(type, name, &length);
  EXPECT_EQ(length, MPI_MAX_OBJECT_NAME - 1);
  calls::Type_get_name(MPI_DATATYPE_NULL, name, &length);
  EXPECT_STREQ(name, "MPI_DATATYPE_NULL");
  calls::Type_free(&type);
}

TEST_F(TypesArguments, TypesBySize) {
  MPI_Datatype type;
  calls::Type_match_size(MPI_TYPECLASS_REAL, 8, &type);
  EXPECT_EQ(type, MPI_REAL8);
  calls::Type_match_size(MPI_TYPECLASS_INTEGER, 2, &type);
  EXPECT_EQ(type, MPI_INTEGER2);
  calls::Type_match_size(MPI_TYPECLASS_COMPLEX, 8, &type);
  EXPECT_EQ(type, MPI_COMPLEX8);
}

template <class Call>
int class_of(Call call) {
  try {
    call();
  } catch (const Failure& failure) {
    return failure.code();
  }
  return MPI_SUCCESS;
}

TEST_F(TypesArguments, WrongArgumentsHaveTheirErrorClass) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Datatype freed;
  calls::Type_contiguous(1, MPI_INT, &freed);
  MPI_Datatype gone = freed;
  calls::Type_free(&freed);
  const int four = 4;
  const int five = 5;
  const int zero = 0;
  const int minus = -1;
  const MPI_Aint far = std::numeric_limits<MPI_Aint>::max();
  MPI_Count big;
  std::byte room[8];
  EXPECT_EQ(class_of([&] { calls::Type_contiguous(-1, MPI_INT, &type); }), MPI_ERR_COUNT);
  EXPECT_EQ(class_of([&] { calls::Type_contiguous(1, gone, &type); }), MPI_ERR_TYPE);
  EXPECT_EQ(class_of([&] { calls::Type_contiguous(1, MPI_DATATYPE_NULL, &type); }), MPI_ERR_TYPE);
  EXPECT_EQ(class_of([&] { calls::Type_contiguous(1, MPI_INT, nullptr); }), MPI_ERR_ARG);
  EXPECT_EQ(class_of([&] { calls::Type_contiguous(far, MPI_INT, &type); }), MPI_ERR_ARG);
  EXPECT_EQ(class_of([&] { calls::Type_vector(1, -1, 1, MPI_INT, &type); }), MPI_ERR_ARG);
  EXPECT_EQ(class_of([&] { calls::Type_indexed(1, &minus, &zero, MPI_INT, &type); }), MPI_ERR_ARG);
  EXPECT_EQ(class_of([&] { calls::Type_indexed(1, Counts(), &zero, MPI_INT, &type); }),
            MPI_ERR_ARG);
  EXPECT_EQ(class_of([&] {
              calls::Type_create_subarray(1, &four, &five, &zero, MPI_ORDER_C, MPI_INT, &type);
            }),
            MPI_ERR_ARG);
  EXPECT_EQ(
      class_of([&] { calls::Type_create_subarray(1, &five, &four, &zero, 3, MPI_INT, &type); }),
      MPI_ERR_ARG);
  EXPECT_EQ(class_of([&] { calls::Type_match_size(MPI_TYPECLASS_REAL, 3, &type); }), MPI_ERR_ARG);
  EXPECT_EQ(class_of([&] { calls::Type_size(gone, &big); }), MPI_ERR_TYPE);
  MPI_Datatype named = MPI_INT;
  EXPECT_EQ(class_of([&] { calls::Type_free(&named); }), MPI_ERR_TYPE);
  EXPECT_EQ(class_of([&] { calls::Type_commit(&gone); }), MPI_ERR_TYPE);
  EXPECT_EQ(
      class_of([&] { calls::Type_get_contents(MPI_INT, 1, 1, 1, nullptr, nullptr, nullptr); }),
      MPI_ERR_TYPE);
  calls::Type_vector(2, 1, 2, MPI_INT, &type);
  EXPECT_EQ(class_of([&] { (void)datatype(type); }), MPI_ERR_TYPE) << "not committed";
  EXPECT_EQ(class_of([&] { calls::Pack_external("external32", room, 1, type, room, 8, &big); }),
            MPI_ERR_TYPE);
  calls::Type_commit(&type);
  int integers[2];
  EXPECT_EQ(class_of([&] { calls::Type_get_contents(type, 2, 0, 1, integers, nullptr, &named); }),
            MPI_ERR_ARG)
      << "too few places";
  MPI_Count position = 1;
  EXPECT_EQ(class_of([&] { calls::Pack_external("internal", room, 1, type, room, 8, &position); }),
            MPI_ERR_ARG);
  EXPECT_EQ(
      class_of([&] { calls::Pack_external("external32", room, 1, type, room, 8, &position); }),
      MPI_ERR_TRUNCATE);
  EXPECT_EQ(position, 1);
  EXPECT_EQ(
      class_of([&] { calls::Pack_external("external32", room, -1, type, room, 8, &position); }),
      MPI_ERR_COUNT);
  EXPECT_EQ(
      class_of([&] { calls::Pack_external("external32", nullptr, 1, type, room, 9, &position); }),
      MPI_ERR_BUFFER);
  EXPECT_EQ(class_of([&] { calls::Get_count(MPI_STATUS_IGNORE, MPI_INT, &big); }), MPI_ERR_ARG);
  calls::Type_free(&type);
}

TEST_F(TypesArguments, CountsOfStatuses) {
  MPI_Status status{};
  MPI_Count count;
  set_bytes(status, 10);
  calls::Get_count(&status, MPI_INT, &count);
  EXPECT_EQ(count, MPI_UNDEFINED);
  calls::Get_count(&status, MPI_SHORT, &count);
  EXPECT_EQ(count, 5);
  MPI_Datatype nothing;
  calls::Type_contiguous(0, MPI_INT, &nothing);
  calls::Get_count(&status, nothing, &count);
  EXPECT_EQ(count, MPI_UNDEFINED);
  set_bytes(status, 0);
  calls::Get_count(&status, nothing, &count);
  EXPECT_EQ(count, 0);
  calls::Get_elements(&status, nothing, &count);
  EXPECT_EQ(count, 0);
  calls::Type_free(&nothing);
}

}  // namespace
}  // namespace weft::mpi::test
