// Every predefined operation on every predefined type, against a naive computation; what MPI does
// not allow; a program's own operations.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cfloat>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "mpi/abi/calls.hpp"
#include "mpi/failure.hpp"
#include "mpi/op.hpp"
#include "mpi/process.hpp"

namespace weft::mpi::test {
namespace {

__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 Uint128;
constexpr MPI_Count kCount = 67;  // not a multiple of any vector's length

class TypesOps : public testing::Test {
 protected:
  void SetUp() override {
    open_datatypes();
    std::printf("seed 5\n");
  }
  void TearDown() override { close_datatypes(); }
  std::mt19937_64 random_{5};

  template <class T>
  std::vector<T> integers(bool small) {
    std::vector<T> values(kCount);
    for (T& v : values) {
      v = small ? static_cast<T>(random_() % 3) : static_cast<T>(random_() * 0x10001ULL);
    }
    return values;
  }
  template <class T>
  std::vector<T> reals() {
    std::vector<T> values(kCount);
    for (T& v : values) v = static_cast<T>(static_cast<int>(random_() % 64) - 32);
    return values;
  }

  template <class T, class Naive>
  void expect_op(MPI_Op op, MPI_Datatype type, const std::vector<T>& in,
                 const std::vector<T>& inout, Naive naive, const std::string& what) {
    std::vector<T> result = inout;
    calls::Reduce_local(in.data(), result.data(), kCount, type, op);
    for (std::size_t i = 0; i < result.size(); ++i) {
      ASSERT_TRUE(result[i] == static_cast<T>(naive(in[i], inout[i]))) << what << ", element " << i;
    }
    // The result elsewhere, from where elements lie that no vector begins at.
    std::vector<T> beside(inout.size() + 2, T{});
    loop_of(mpi::op(op), datatype(type), false)(in.data() + 1, inout.data() + 1, beside.data() + 1,
                                                kCount - 1);
    ASSERT_TRUE(std::equal(result.begin() + 1, result.end(), beside.begin() + 1)) << what;
    ASSERT_TRUE(beside.front() == T{} && beside[kCount] == T{}) << what << " wrote too much";
  }

  template <class T>
  void expect_bits(MPI_Datatype type, const std::string& what) {
    const auto in = integers<T>(false);
    const auto inout = integers<T>(false);
    expect_op(
        MPI_BAND, type, in, inout, [](T a, T b) { return a & b; }, what + " BAND");
    expect_op(
        MPI_BOR, type, in, inout, [](T a, T b) { return a | b; }, what + " BOR");
    expect_op(
        MPI_BXOR, type, in, inout, [](T a, T b) { return a ^ b; }, what + " BXOR");
  }
  template <class T>
  void expect_logical(MPI_Datatype type, const std::string& what) {
    const auto in = integers<T>(true);
    const auto inout = integers<T>(true);
    expect_op(
        MPI_LAND, type, in, inout, [](T a, T b) { return a && b; }, what + " LAND");
    expect_op(
        MPI_LOR, type, in, inout, [](T a, T b) { return a || b; }, what + " LOR");
    expect_op(
        MPI_LXOR, type, in, inout, [](T a, T b) { return !a != !b; }, what + " LXOR");
  }
  template <class T>
  void expect_order(MPI_Datatype type, const std::vector<T>& in, const std::vector<T>& inout,
                    const std::string& what) {
    expect_op(
        MPI_MIN, type, in, inout, [](T a, T b) { return a < b ? a : b; }, what + " MIN");
    expect_op(
        MPI_MAX, type, in, inout, [](T a, T b) { return a > b ? a : b; }, what + " MAX");
  }
  template <class T>
  void expect_integer(MPI_Datatype type, bool logical, const std::string& what) {
    const auto in = integers<T>(false);
    const auto inout = integers<T>(false);
    // Wraps around, as the sum of the low bits does.
    using U = Uint128;
    expect_op(
        MPI_SUM, type, in, inout, [](T a, T b) { return static_cast<U>(a) + static_cast<U>(b); },
        what + " SUM");
    expect_op(
        MPI_PROD, type, in, inout, [](T a, T b) { return static_cast<U>(a) * static_cast<U>(b); },
        what + " PROD");
    expect_order(type, in, inout, what);
    expect_bits<T>(type, what);
    if (logical) expect_logical<T>(type, what);
  }
  template <class T>
  void expect_floating(MPI_Datatype type, const std::string& what) {
    const auto in = reals<T>();
    const auto inout = reals<T>();
    expect_op(
        MPI_SUM, type, in, inout, [](T a, T b) { return a + b; }, what + " SUM");
    expect_op(
        MPI_PROD, type, in, inout, [](T a, T b) { return a * b; }, what + " PROD");
    expect_order(type, in, inout, what);
  }
  template <class T>
  void expect_complex(MPI_Datatype type, const std::string& what) {
    struct Number {
      T re;
      T im;
      bool operator==(const Number& o) const { return re == o.re && im == o.im; }
    };
    const auto parts = [this] {
      const auto re = reals<T>();
      const auto im = reals<T>();
      std::vector<Number> numbers(kCount);
      for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = {re[i], im[i]};
      return numbers;
    };
    const auto in = parts();
    const auto inout = parts();
    expect_op(
        MPI_SUM, type, in, inout,
        [](Number a, Number b) {
          return Number{static_cast<T>(a.re + b.re), static_cast<T>(a.im + b.im)};
        },
        what + " SUM");
    expect_op(
        MPI_PROD, type, in, inout,
        [](Number a, Number b) {
          return Number{static_cast<T>(a.re * b.re - a.im * b.im),
                        static_cast<T>(a.re * b.im + a.im * b.re)};
        },
        what + " PROD");
  }
  template <class Value, class Index>
  void expect_pair(MPI_Datatype type, const std::string& what) {
    struct Pair {
      Value value;
      Index index;
    };
    for (const bool max : {false, true}) {
      std::vector<Pair> in(kCount);
      std::vector<Pair> inout(kCount);
      for (auto* list : {&in, &inout}) {
        for (Pair& pair : *list) {
          pair.value = static_cast<Value>(random_() % 4);
          pair.index = static_cast<Index>(random_() % 8);
        }
      }
      std::vector<Pair> result = inout;
      calls::Reduce_local(in.data(), result.data(), kCount, type, max ? MPI_MAXLOC : MPI_MINLOC);
      for (std::size_t i = 0; i < result.size(); ++i) {
        Pair expected = inout[i];
        const Pair& other = in[i];
        const bool wins = max ? other.value > expected.value : other.value < expected.value;
        if (wins || (other.value == expected.value && other.index < expected.index)) {
          expected = other;
        }
        ASSERT_TRUE(result[i].value == expected.value) << what << ' ' << i;
        ASSERT_TRUE(result[i].index == expected.index) << what << ' ' << i;
      }
    }
  }
};

TEST_F(TypesOps, Integers) {
  expect_integer<short>(MPI_SHORT, true, "SHORT");
  expect_integer<int>(MPI_INT, true, "INT");
  expect_integer<long>(MPI_LONG, true, "LONG");
  expect_integer<long long>(MPI_LONG_LONG, true, "LONG_LONG");
  expect_integer<unsigned short>(MPI_UNSIGNED_SHORT, true, "UNSIGNED_SHORT");
  expect_integer<unsigned>(MPI_UNSIGNED, true, "UNSIGNED");
  expect_integer<unsigned long>(MPI_UNSIGNED_LONG, true, "UNSIGNED_LONG");
  expect_integer<unsigned long long>(MPI_UNSIGNED_LONG_LONG, true, "UNSIGNED_LONG_LONG");
  expect_integer<signed char>(MPI_SIGNED_CHAR, true, "SIGNED_CHAR");
  expect_integer<unsigned char>(MPI_UNSIGNED_CHAR, true, "UNSIGNED_CHAR");
  expect_integer<char>(MPI_CHAR, true, "CHAR");
  expect_integer<int8_t>(MPI_INT8_T, true, "INT8_T");
  expect_integer<uint8_t>(MPI_UINT8_T, true, "UINT8_T");
  expect_integer<int16_t>(MPI_INT16_T, true, "INT16_T");
  expect_integer<uint16_t>(MPI_UINT16_T, true, "UINT16_T");
  expect_integer<int32_t>(MPI_INT32_T, true, "INT32_T");
  expect_integer<uint32_t>(MPI_UINT32_T, true, "UINT32_T");
  expect_integer<int64_t>(MPI_INT64_T, true, "INT64_T");
  expect_integer<uint64_t>(MPI_UINT64_T, true, "UINT64_T");
  expect_integer<int32_t>(MPI_INTEGER, false, "INTEGER");
  expect_integer<int8_t>(MPI_INTEGER1, false, "INTEGER1");
  expect_integer<int16_t>(MPI_INTEGER2, false, "INTEGER2");
  expect_integer<int32_t>(MPI_INTEGER4, false, "INTEGER4");
  expect_integer<int64_t>(MPI_INTEGER8, false, "INTEGER8");
  expect_integer<Int128>(MPI_INTEGER16, false, "INTEGER16");
  expect_integer<MPI_Aint>(MPI_AINT, true, "AINT");
  expect_integer<MPI_Offset>(MPI_OFFSET, true, "OFFSET");
  expect_integer<MPI_Count>(MPI_COUNT, true, "COUNT");
  expect_bits<uint8_t>(MPI_BYTE, "BYTE");
}

TEST_F(TypesOps, LogicalTypes) {
  expect_logical<uint8_t>(MPI_LOGICAL1, "LOGICAL1");
  expect_logical<int16_t>(MPI_LOGICAL2, "LOGICAL2");
  expect_logical<int32_t>(MPI_LOGICAL4, "LOGICAL4");
  expect_logical<int32_t>(MPI_LOGICAL, "LOGICAL");
  expect_logical<int64_t>(MPI_LOGICAL8, "LOGICAL8");
  expect_logical<Int128>(MPI_LOGICAL16, "LOGICAL16");
  for (MPI_Datatype type : {MPI_C_BOOL, MPI_CXX_BOOL}) {
    const bool in[] = {false, false, true, true};
    bool both[] = {false, true, false, true};
    calls::Reduce_local(in, both, 4, type, MPI_LXOR);
    EXPECT_TRUE(!both[0] && both[1] && both[2] && !both[3]);
  }
}

TEST_F(TypesOps, FloatingPointAndComplex) {
  expect_floating<float>(MPI_FLOAT, "FLOAT");
  expect_floating<double>(MPI_DOUBLE, "DOUBLE");
  expect_floating<long double>(MPI_LONG_DOUBLE, "LONG_DOUBLE");
  expect_floating<float>(MPI_REAL, "REAL");
  expect_floating<double>(MPI_DOUBLE_PRECISION, "DOUBLE_PRECISION");
  expect_floating<float>(MPI_REAL4, "REAL4");
  expect_floating<double>(MPI_REAL8, "REAL8");
  expect_complex<float>(MPI_C_FLOAT_COMPLEX, "C_FLOAT_COMPLEX");
  expect_complex<double>(MPI_C_DOUBLE_COMPLEX, "C_DOUBLE_COMPLEX");
  expect_complex<long double>(MPI_C_LONG_DOUBLE_COMPLEX, "C_LONG_DOUBLE_COMPLEX");
  expect_complex<float>(MPI_CXX_FLOAT_COMPLEX, "CXX_FLOAT_COMPLEX");
  expect_complex<double>(MPI_CXX_DOUBLE_COMPLEX, "CXX_DOUBLE_COMPLEX");
  expect_complex<long double>(MPI_CXX_LONG_DOUBLE_COMPLEX, "CXX_LONG_DOUBLE_COMPLEX");
  expect_complex<float>(MPI_COMPLEX, "COMPLEX");
  expect_complex<double>(MPI_DOUBLE_COMPLEX, "DOUBLE_COMPLEX");
  expect_complex<float>(MPI_COMPLEX8, "COMPLEX8");
  expect_complex<double>(MPI_COMPLEX16, "COMPLEX16");
#if defined(__FLT16_MANT_DIG__)
  expect_floating<_Float16>(MPI_REAL2, "REAL2");
  expect_complex<_Float16>(MPI_COMPLEX4, "COMPLEX4");
#endif
#if defined(__SIZEOF_FLOAT128__)
  expect_floating<__float128>(MPI_REAL16, "REAL16");
  expect_complex<__float128>(MPI_COMPLEX32, "COMPLEX32");
#endif
}

TEST_F(TypesOps, Pairs) {
  expect_pair<float, int>(MPI_FLOAT_INT, "FLOAT_INT");
  expect_pair<double, int>(MPI_DOUBLE_INT, "DOUBLE_INT");
  expect_pair<long, int>(MPI_LONG_INT, "LONG_INT");
  expect_pair<int, int>(MPI_2INT, "2INT");
  expect_pair<short, int>(MPI_SHORT_INT, "SHORT_INT");
  expect_pair<long double, int>(MPI_LONG_DOUBLE_INT, "LONG_DOUBLE_INT");
  expect_pair<float, float>(MPI_2REAL, "2REAL");
  expect_pair<double, double>(MPI_2DOUBLE_PRECISION, "2DOUBLE_PRECISION");
  expect_pair<int, int>(MPI_2INTEGER, "2INTEGER");
  MPI_Datatype pair;
  calls::Type_get_value_index(MPI_UINT8_T, MPI_INT64_T, &pair);
  expect_pair<uint8_t, int64_t>(pair, "uint8_t, int64_t");
  calls::Type_get_value_index(MPI_DOUBLE, MPI_COUNT, &pair);
  expect_pair<double, MPI_Count>(pair, "double, MPI_Count");
  calls::Type_get_value_index(MPI_DOUBLE, MPI_UINT64_T, &pair);
  expect_pair<double, uint64_t>(pair, "double, uint64_t");
  calls::Type_get_value_index(MPI_UNSIGNED_LONG, MPI_SHORT, &pair);
  expect_pair<unsigned long, short>(pair, "unsigned long, short");
  calls::Type_get_value_index(MPI_LONG_DOUBLE, MPI_UINT8_T, &pair);
  expect_pair<long double, uint8_t>(pair, "long double, uint8_t");
  calls::Type_get_value_index(MPI_INTEGER16, MPI_INT, &pair);
  expect_pair<Int128, int>(pair, "INTEGER16, int");
  calls::Type_get_value_index(MPI_SHORT, MPI_INTEGER16, &pair);
  expect_pair<short, Int128>(pair, "short, INTEGER16");
#if defined(__FLT16_MANT_DIG__)
  calls::Type_get_value_index(MPI_REAL2, MPI_INT, &pair);
  expect_pair<_Float16, int>(pair, "REAL2, int");
#endif
#if defined(__SIZEOF_FLOAT128__)
  calls::Type_get_value_index(MPI_REAL16, MPI_INT, &pair);
  expect_pair<__float128, int>(pair, "REAL16, int");
#endif
}

bool goes(MPI_Op op, MPI_Datatype type) {
  alignas(16) std::byte in[64] = {};
  alignas(16) std::byte inout[64] = {};
  try {
    calls::Reduce_local(in, inout, 1, type, op);
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), MPI_ERR_OP) << failure.what();
    return false;
  }
  return true;
}

TEST_F(TypesOps, EveryPairOfValueAndIndexGoes) {
  const std::vector<MPI_Datatype> integers = {MPI_SIGNED_CHAR,
                                              MPI_SHORT,
                                              MPI_INT,
                                              MPI_LONG,
                                              MPI_LONG_LONG,
                                              MPI_UNSIGNED_CHAR,
                                              MPI_UNSIGNED_SHORT,
                                              MPI_UNSIGNED,
                                              MPI_UNSIGNED_LONG,
                                              MPI_UNSIGNED_LONG_LONG,
                                              MPI_INT8_T,
                                              MPI_INT16_T,
                                              MPI_INT32_T,
                                              MPI_INT64_T,
                                              MPI_UINT8_T,
                                              MPI_UINT16_T,
                                              MPI_UINT32_T,
                                              MPI_UINT64_T,
                                              MPI_AINT,
                                              MPI_OFFSET,
                                              MPI_COUNT,
                                              MPI_INTEGER,
                                              MPI_INTEGER16};
  std::vector<MPI_Datatype> values = integers;
  values.insert(values.end(), {MPI_FLOAT, MPI_DOUBLE, MPI_LONG_DOUBLE, MPI_REAL16});
  for (const MPI_Datatype value : values) {
    for (const MPI_Datatype index : integers) {
      MPI_Datatype pair;
      calls::Type_get_value_index(value, index, &pair);
      ASSERT_NE(pair, MPI_DATATYPE_NULL);
      EXPECT_TRUE(goes(MPI_MINLOC, pair));
      EXPECT_TRUE(goes(MPI_MAXLOC, pair));
      EXPECT_FALSE(goes(MPI_SUM, pair));
    }
  }
}

TEST_F(TypesOps, OnlyWhatTheStandardAllows) {
  EXPECT_FALSE(goes(MPI_SUM, MPI_CHARACTER));
  EXPECT_FALSE(goes(MPI_SUM, MPI_WCHAR));
  EXPECT_FALSE(goes(MPI_SUM, MPI_BYTE));
  EXPECT_FALSE(goes(MPI_SUM, MPI_PACKED));
  EXPECT_FALSE(goes(MPI_SUM, MPI_LOGICAL));
  EXPECT_FALSE(goes(MPI_SUM, MPI_DOUBLE_INT));
  EXPECT_FALSE(goes(MPI_MAX, MPI_C_DOUBLE_COMPLEX));
  EXPECT_FALSE(goes(MPI_LAND, MPI_DOUBLE));
  EXPECT_FALSE(goes(MPI_LAND, MPI_INTEGER));
  EXPECT_FALSE(goes(MPI_BAND, MPI_FLOAT));
  EXPECT_FALSE(goes(MPI_BAND, MPI_C_BOOL));
  EXPECT_FALSE(goes(MPI_MINLOC, MPI_INT));
  EXPECT_FALSE(goes(MPI_REPLACE, MPI_INT));
  EXPECT_FALSE(goes(MPI_NO_OP, MPI_INT));
  EXPECT_FALSE(goes(MPI_OP_NULL, MPI_INT));
  MPI_Datatype derived;
  calls::Type_contiguous(2, MPI_INT, &derived);
  calls::Type_commit(&derived);
  EXPECT_FALSE(goes(MPI_SUM, derived));
  calls::Type_free(&derived);
  EXPECT_TRUE(goes(MPI_BAND, MPI_BYTE));
  MPI_Datatype kind;
  calls::Type_create_f90_real(10, MPI_UNDEFINED, &kind);
  EXPECT_TRUE(goes(MPI_SUM, kind));
}

TEST_F(TypesOps, TheOtherWayRoundIsTheSameBits) {
  std::uniform_real_distribution<double> reals(-1, 1);
  std::array<double, 2 * kCount> one{};
  std::array<double, 2 * kCount> other{};
  for (auto* numbers : {&one, &other}) {
    for (double& number : *numbers) number = reals(random_);
  }
  for (const MPI_Op named : {MPI_SUM, MPI_PROD}) {
    auto plain = other;
    auto turned = one;
    reduce(op(named), one.data(), plain.data(), kCount, datatype(MPI_C_DOUBLE_COMPLEX),
           MPI_C_DOUBLE_COMPLEX);
    reduce_turned(op(named), other.data(), turned.data(), kCount, datatype(MPI_C_DOUBLE_COMPLEX),
                  MPI_C_DOUBLE_COMPLEX);
    EXPECT_EQ(std::memcmp(plain.data(), turned.data(), sizeof plain), 0);
  }
}

#if LDBL_MANT_DIG == 64
TEST_F(TypesOps, KindsBetweenDoubleAndQuadAreExtended) {
  for (const auto& [precision, range] : {std::pair{18, 4931}, {16, MPI_UNDEFINED}, {6, 308}}) {
    MPI_Datatype real;
    calls::Type_create_f90_real(precision, range, &real);
    const long double in = 1.25L;
    long double inout = 2.5L;
    calls::Reduce_local(&in, &inout, 1, real, MPI_SUM);
    EXPECT_EQ(inout, 3.75L);
    MPI_Datatype complex;
    calls::Type_create_f90_complex(precision, range, &complex);
    const std::array<long double, 2> pair = {1.25L, -1.0L};
    std::array<long double, 2> sum = pair;
    calls::Reduce_local(pair.data(), sum.data(), 1, complex, MPI_SUM);
    EXPECT_EQ(sum, (std::array<long double, 2>{2.5L, -2.0L}));
  }
}
#endif

TEST_F(TypesOps, ReplaceAndNoOp) {
  const int in[] = {1, 2};
  int inout[] = {3, 4};
  reduce(op(MPI_NO_OP), in, inout, 2, datatype(MPI_INT), MPI_INT);
  EXPECT_EQ(inout[0], 3);
  reduce(op(MPI_REPLACE), in, inout, 2, datatype(MPI_INT), MPI_INT);
  EXPECT_EQ(inout[0], 1);
  EXPECT_EQ(inout[1], 2);
}

void plain_function(void* in, void* inout, int* length, MPI_Datatype* type) {
  EXPECT_EQ(*type, MPI_INT);
  for (int i = 0; i < *length; ++i) {
    static_cast<int*>(inout)[i] = static_cast<int*>(in)[i] * 10 + static_cast<int*>(inout)[i];
  }
}
void large_function(void* in, void* inout, MPI_Count* length, MPI_Datatype* type) {
  int count = static_cast<int>(*length);
  plain_function(in, inout, &count, type);
}

TEST_F(TypesOps, ProgramsHaveTheirOwn) {
  for (const bool large : {false, true}) {
    MPI_Op own;
    large ? calls::Op_create_c(large_function, 0, &own) : calls::Op_create(plain_function, 1, &own);
    int commutes = -1;
    calls::Op_commutative(own, &commutes);
    EXPECT_EQ(commutes, large ? 0 : 1);
    const int in[] = {1, 2, 3};
    int inout[] = {4, 5, 6};
    calls::Reduce_local(in, inout, 3, MPI_INT, own);
    EXPECT_EQ(inout[0], 14);
    EXPECT_EQ(inout[2], 36);
    MPI_Op copy = own;
    calls::Op_free(&own);
    EXPECT_EQ(own, MPI_OP_NULL);
    EXPECT_THROW(calls::Op_free(&copy), Failure);
  }
  MPI_Op named = MPI_SUM;
  EXPECT_THROW(calls::Op_free(&named), Failure);
  int commutes = 0;
  calls::Op_commutative(MPI_MAXLOC, &commutes);
  EXPECT_EQ(commutes, 1);
}

}  // namespace
}  // namespace weft::mpi::test
