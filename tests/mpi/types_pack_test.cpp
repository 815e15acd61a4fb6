// Bounds and packing of random nested types against a naive interpreter of the type map.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "mpi/process.hpp"
#include "mpi/status.hpp"
#include "types_reference.hpp"

namespace weft::mpi::test {
namespace {

class TypesPack : public testing::Test {
 protected:
  void SetUp() override { open_datatypes(); }
  void TearDown() override { close_datatypes(); }
};

/// A buffer around which addresses of a type's elements lie, filled with a pattern.
struct Memory {
  Memory(const Reference& type, int64_t count, int fill) {
    const int64_t last = count > 0 ? (count - 1) * type.extent() : 0;
    const int64_t low = type.true_lower() + std::min<int64_t>(last, 0);
    const int64_t high = type.true_upper() + std::max<int64_t>(last, 0);
    bytes.resize(static_cast<std::size_t>(high - low));
    origin = -low;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] =
          static_cast<std::byte>(fill >= 0 ? static_cast<std::size_t>(fill) : i * 7 + i / 251);
    }
  }
  std::byte* buffer() { return bytes.data() + origin; }
  std::vector<std::byte> bytes;
  int64_t origin;
};

void check_bounds(const Both& both) {
  MPI_Count lb = 0;
  MPI_Count extent = 0;
  calls::Type_get_extent(both.type, &lb, &extent);
  ASSERT_EQ(lb, both.reference.lower());
  ASSERT_EQ(extent, both.reference.extent());
  calls::Type_get_true_extent(both.type, &lb, &extent);
  ASSERT_EQ(lb, both.reference.true_lower());
  ASSERT_EQ(extent, both.reference.true_upper() - both.reference.true_lower());
  MPI_Count size = 0;
  calls::Type_size(both.type, &size);
  ASSERT_EQ(size, both.reference.size());
  ASSERT_EQ(any_datatype(both.type).elements(), static_cast<int64_t>(both.reference.map.size()));
}

/// MPI_Get_elements of every beginning of one element's packed form.
void check_elements(const Both& both) {
  const Datatype& type = any_datatype(both.type);
  int64_t bytes = 0;
  int64_t elements = 0;
  std::size_t next = 0;
  for (int64_t limit = std::min<int64_t>(both.reference.size(), 600); bytes <= limit; ++bytes) {
    int64_t end = 0;
    for (elements = 0, next = 0; next < both.reference.map.size(); ++next) {
      if (end + both.reference.map[next].size > bytes) break;
      end += both.reference.map[next].size;
      ++elements;
    }
    ASSERT_EQ(elements_in(type, bytes), end == bytes ? elements : MPI_UNDEFINED) << bytes;
    if (end != bytes) continue;
    MPI_Status status{};
    calls::Status_set_elements(&status, both.type, elements);
    ASSERT_EQ(bytes_of(status), bytes);
  }
}

void check_packing(const Both& both, RandomTypes& random, int64_t count) {
  const Datatype& type = datatype(both.type);
  Memory memory(both.reference, count, -1);
  const std::vector<std::byte> expected = both.reference.pack(memory.buffer(), count);
  const auto total = static_cast<int64_t>(expected.size());
  ASSERT_EQ(count * type.size(), total);
  if (type.contiguous() && total != 0) {
    ASSERT_EQ(std::memcmp(memory.buffer(), expected.data(), expected.size()), 0);
  }
  std::vector<std::byte> packed(expected.size());
  type.pack(memory.buffer(), count, 0, packed);
  ASSERT_EQ(packed, expected);
  for (int i = 0; i < 20; ++i) {
    const int64_t from = random.number(0, total);
    const int64_t to = random.number(from, total);
    std::vector<std::byte> window(static_cast<std::size_t>(to - from));
    type.pack(memory.buffer(), count, from, window);
    ASSERT_TRUE(std::equal(window.begin(), window.end(), expected.begin() + from))
        << from << " to " << to;
  }
  // In pieces of random lengths; what belongs to no element stays.
  Memory target(both.reference, count, 0xa5);
  Memory wanted(both.reference, count, 0xa5);
  for (int64_t i = 0, at = 0; i < count; ++i) {
    for (const Entry& e : both.reference.map) {
      std::memcpy(wanted.buffer() + i * both.reference.extent() + e.at, expected.data() + at,
                  static_cast<std::size_t>(e.size));
      at += e.size;
    }
  }
  for (int64_t at = 0; at < total;) {
    const int64_t bytes = std::min(random.number(1, 1 + total / 4), total - at);
    type.unpack(
        target.buffer(), count, at,
        std::span(expected).subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(bytes)));
    at += bytes;
  }
  ASSERT_EQ(target.bytes, wanted.bytes);
}

void check_random_types(uint64_t seed) {
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  RandomTypes random(seed);
  for (int i = 0; i < 1500; ++i) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", type " + std::to_string(i));
    Both both = random.make(1 + i % 4);
    check_bounds(both);
    if (testing::Test::HasFatalFailure()) return;
    check_elements(both);
    if (testing::Test::HasFatalFailure()) return;
    calls::Type_commit(&both.type);
    check_packing(both, random, random.number(0, 4));
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST_F(TypesPack, RandomNestedTypesMatchTheTypeMap) {
  if (const char* given = std::getenv("WEFT_TEST_SEED"); given != nullptr) {
    return check_random_types(std::stoull(given));
  }
  for (const uint64_t seed : {1, 2, 3, 5}) check_random_types(seed);
}

TEST_F(TypesPack, VectorsOfVectorsStayLoops) {
  MPI_Datatype column;
  calls::Type_vector(1000, 1, 3, MPI_DOUBLE, &column);
  MPI_Datatype plane;
  calls::Type_create_hvector(1000, 1, 3 * 1000 * 8 + 8, column, &plane);
  MPI_Datatype volume;
  calls::Type_create_hvector(1000, 1, 1000L * (3 * 1000 * 8 + 8) + 16, plane, &volume);
  calls::Type_commit(&volume);  // a billion blocks, if it were a list
  EXPECT_EQ(any_datatype(volume).size(), 8000000000);
  for (MPI_Datatype* type : {&column, &plane, &volume}) calls::Type_free(type);
}

TEST_F(TypesPack, TypesThatTouchAreContiguous) {
  struct {
    int a;
    int b;
    double c;
  } record;
  (void)record;
  const MPI_Count lengths[] = {1, 1, 1};
  const MPI_Count places[] = {0, 4, 8};
  const MPI_Datatype types[] = {MPI_INT, MPI_INT, MPI_DOUBLE};
  MPI_Datatype made;
  calls::Type_create_struct(3, Counts(lengths), places, types, &made);
  MPI_Datatype several;
  calls::Type_vector(10, 2, 2, made, &several);
  calls::Type_commit(&several);
  EXPECT_TRUE(any_datatype(several).contiguous());
  calls::Type_free(&made);
  calls::Type_free(&several);
}

TEST_F(TypesPack, AbsoluteAddressesPackFromNull) {
  int x = 17;
  double y = 2.5;
  const MPI_Count lengths[] = {1, 1};
  MPI_Aint places[2];
  calls::Get_address(&x, &places[0]);
  calls::Get_address(&y, &places[1]);
  const MPI_Datatype types[] = {MPI_INT, MPI_DOUBLE};
  MPI_Datatype made;
  calls::Type_create_struct(2, Counts(lengths), places, types, &made);
  calls::Type_commit(&made);
  std::byte packed[12];
  datatype(made).pack(MPI_BOTTOM, 1, 0, packed);
  x = 0;
  y = 0;
  datatype(made).unpack(MPI_BOTTOM, 1, 0, packed);
  EXPECT_EQ(x, 17);
  EXPECT_EQ(y, 2.5);
  calls::Type_free(&made);
}

TEST_F(TypesPack, TypesOutliveWhatTheyAreMadeOf) {
  MPI_Datatype inner;
  calls::Type_vector(2, 1, 2, MPI_INT, &inner);
  MPI_Datatype outer;
  calls::Type_contiguous(2, inner, &outer);
  calls::Type_free(&inner);
  EXPECT_EQ(inner, MPI_DATATYPE_NULL);
  calls::Type_commit(&outer);
  const int data[] = {1, 0, 2, 3, 0, 4};
  int packed[4];
  datatype(outer).pack(data, 1, 0, std::as_writable_bytes(std::span(packed)));
  EXPECT_EQ(packed[3], 4);
  calls::Type_free(&outer);
}

/// The elements of a distributed array that a process owns, one by one.
struct OwnedCheck {
  std::vector<int> sizes, distribs, dargs, grid;
  bool c_order;

  bool owns(int dim, int index, int place) const {
    const auto d = static_cast<std::size_t>(dim);
    int block = dargs[d];
    switch (distribs[d]) {
      case MPI_DISTRIBUTE_NONE:
        return true;
      case MPI_DISTRIBUTE_BLOCK:
        if (block == MPI_DISTRIBUTE_DFLT_DARG) block = (sizes[d] + grid[d] - 1) / grid[d];
        return index / block == place;
      default:
        if (block == MPI_DISTRIBUTE_DFLT_DARG) block = 1;
        return index / block % grid[d] == place;
    }
  }
  std::vector<int64_t> owned(int rank) const {
    std::vector<int> place(sizes.size());
    for (std::size_t d = sizes.size(); d-- > 0;) {
      place[d] = rank % grid[d];
      rank /= grid[d];
    }
    int64_t total = 1;
    for (int s : sizes) total *= s;
    std::vector<int64_t> result;
    for (int64_t at = 0; at < total; ++at) {
      int64_t left = at;
      bool mine = true;
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        const std::size_t d = c_order ? sizes.size() - 1 - i : i;
        mine = mine && owns(static_cast<int>(d), static_cast<int>(left % sizes[d]), place[d]);
        left /= sizes[d];
      }
      if (mine) result.push_back(at);
    }
    return result;
  }
};

TEST_F(TypesPack, DistributedArraysGiveEachProcessItsElements) {
  constexpr int kDefault = MPI_DISTRIBUTE_DFLT_DARG;
  constexpr int kBlock = MPI_DISTRIBUTE_BLOCK;
  constexpr int kCyclic = MPI_DISTRIBUTE_CYCLIC;
  constexpr int kNone = MPI_DISTRIBUTE_NONE;
  const OwnedCheck cases[] = {
      {{10}, {kBlock}, {kDefault}, {4}, true},
      {{10}, {kCyclic}, {3}, {2}, true},
      {{3}, {kBlock}, {kDefault}, {4}, true},
      {{7, 9}, {kBlock, kCyclic}, {kDefault, 2}, {2, 3}, true},
      {{7, 9}, {kCyclic, kBlock}, {kDefault, 5}, {2, 2}, false},
      {{4, 5, 6}, {kNone, kCyclic, kBlock}, {kDefault, 2, kDefault}, {1, 3, 2}, false},
      {{4, 5, 6}, {kCyclic, kNone, kCyclic}, {1, kDefault, 4}, {3, 1, 2}, true},
      // The argument of a dimension that is not distributed means nothing.
      {{4, 5}, {kNone, kBlock}, {0, kDefault}, {1, 2}, true},
      {{4, 5}, {kCyclic, kNone}, {2, -7}, {2, 1}, false},
  };
  for (const OwnedCheck& array : cases) {
    int size = 1;
    int64_t total = 1;
    for (int g : array.grid) size *= g;
    for (int s : array.sizes) total *= s;
    std::vector<int> global(static_cast<std::size_t>(total));
    for (std::size_t i = 0; i < global.size(); ++i) global[i] = static_cast<int>(i);
    for (int rank = 0; rank < size; ++rank) {
      MPI_Datatype type;
      calls::Type_create_darray(size, rank, static_cast<int>(array.sizes.size()),
                                Counts(array.sizes.data()), array.distribs.data(),
                                array.dargs.data(), array.grid.data(),
                                array.c_order ? MPI_ORDER_C : MPI_ORDER_FORTRAN, MPI_INT, &type);
      calls::Type_commit(&type);
      const std::vector<int64_t> owned = array.owned(rank);
      ASSERT_EQ(any_datatype(type).size(), static_cast<int64_t>(owned.size() * 4));
      EXPECT_EQ(any_datatype(type).extent(), total * 4);
      EXPECT_EQ(any_datatype(type).lower_bound(), 0);
      std::vector<int> mine(owned.size());
      datatype(type).pack(global.data(), 1, 0, std::as_writable_bytes(std::span(mine)));
      for (std::size_t i = 0; i < mine.size(); ++i) ASSERT_EQ(mine[i], owned[i]);
      calls::Type_free(&type);
    }
  }
}

}  // namespace
}  // namespace weft::mpi::test
