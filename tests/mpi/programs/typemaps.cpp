// What datatype constructors lay out, by packing numbered bytes: blocks, subarrays, distributed
// arrays; the large forms of their sizes; what a type says of itself; external32.
#include <cstdint>
#include <numeric>
#include <vector>

#include "check.hpp"

namespace {

/// The places, in units of int, that a type of ints takes from a buffer, in its order.
std::vector<int> places(MPI_Datatype type) {
  MPI_Type_commit(&type);
  std::vector<int> numbers(400);
  std::iota(numbers.begin(), numbers.end(), 0);
  int bytes = 0;
  MPI_Pack_size(1, type, MPI_COMM_SELF, &bytes);
  std::vector<int> packed(static_cast<std::size_t>(bytes) / sizeof(int) + 1, -1);
  int position = 0;
  WEFT_CHECK(MPI_Pack(numbers.data(), 1, type, packed.data(), bytes, &position, MPI_COMM_SELF) ==
             MPI_SUCCESS);
  packed.resize(static_cast<std::size_t>(position) / sizeof(int));
  return packed;
}

void expect_places(MPI_Datatype type, const std::vector<int>& wanted, const char* what) {
  const std::vector<int> found = places(type);
  if (found == wanted) return;
  std::printf("%s: takes", what);
  for (const int place : found) std::printf(" %d", place);
  std::printf("\n");
  ++failures;
}

void blocks() {
  const int at[] = {7, 0, 3};
  const MPI_Aint bytes_at[] = {28, 0, 12};
  MPI_Datatype type;
  MPI_Type_create_indexed_block(3, 2, at, MPI_INT, &type);
  expect_places(type, {7, 8, 0, 1, 3, 4}, "indexed block");
  MPI_Type_free(&type);
  MPI_Type_create_hindexed_block(3, 2, bytes_at, MPI_INT, &type);
  expect_places(type, {7, 8, 0, 1, 3, 4}, "hindexed block");
  MPI_Type_free(&type);
  const int lengths[] = {1, 3, 2};
  MPI_Type_create_hindexed(3, lengths, bytes_at, MPI_INT, &type);
  expect_places(type, {7, 0, 1, 2, 3, 4}, "hindexed");
  MPI_Type_free(&type);
  MPI_Type_create_hvector(3, 2, 20, MPI_INT, &type);
  expect_places(type, {0, 1, 5, 6, 10, 11}, "hvector");
  MPI_Type_free(&type);
}

void subarrays() {
  const int sizes[] = {4, 6};
  const int parts[] = {2, 3};
  const int starts[] = {1, 2};
  MPI_Datatype type;
  MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &type);
  expect_places(type, {8, 9, 10, 14, 15, 16}, "a subarray, rows first");
  MPI_Aint low = 1;
  MPI_Aint extent = 0;
  MPI_Type_get_extent(type, &low, &extent);
  WEFT_CHECK(low == 0 && extent == 24 * 4);
  MPI_Type_get_true_extent(type, &low, &extent);
  WEFT_CHECK(low == 8 * 4 && extent == 9 * 4);
  MPI_Count large_low = -1;
  MPI_Count large_extent = -1;
  MPI_Type_get_true_extent_x(type, &large_low, &large_extent);
  WEFT_CHECK(large_low == 8 * 4 && large_extent == 9 * 4);
  MPI_Type_get_extent_x(type, &large_low, &large_extent);
  WEFT_CHECK(large_low == 0 && large_extent == 24 * 4);
  MPI_Count size = 0;
  MPI_Type_size_x(type, &size);
  WEFT_CHECK(size == 6 * 4);
  MPI_Type_free(&type);
  MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_FORTRAN, MPI_INT, &type);
  expect_places(type, {9, 10, 13, 14, 17, 18}, "a subarray, columns first");
  MPI_Type_free(&type);
}

/// Each place of the whole belongs to one process.
void distributed_arrays() {
  const int sizes[] = {5, 7};
  const int how[] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK};
  const int arguments[] = {2, MPI_DISTRIBUTE_DFLT_DARG};
  const int grid[] = {2, 3};
  std::vector<int> owners(35, 0);
  for (int rank = 0; rank < 6; ++rank) {
    MPI_Datatype type;
    MPI_Type_create_darray(6, rank, 2, sizes, how, arguments, grid, MPI_ORDER_C, MPI_INT, &type);
    for (const int place : places(type)) {
      const int row = place / 7;
      const int column = place % 7;
      // Rows two at a time in turn, columns in blocks of three.
      WEFT_CHECK(rank == row / 2 % 2 * 3 + column / 3);
      ++owners[static_cast<std::size_t>(place)];
    }
    MPI_Type_free(&type);
  }
  WEFT_CHECK(owners == std::vector<int>(35, 1));
}

void what_it_is_made_of() {
  const int lengths[] = {1, 2};
  const MPI_Aint at[] = {0, 16};
  const MPI_Datatype of[] = {MPI_INT, MPI_DOUBLE};
  MPI_Datatype type;
  MPI_Type_create_struct(2, lengths, at, of, &type);
  int integers = 0;
  int addresses = 0;
  int types = 0;
  int combiner = 0;
  MPI_Count large[4];
  MPI_Type_get_envelope_c(type, &large[0], &large[1], &large[2], &large[3], &combiner);
  WEFT_CHECK(combiner == MPI_COMBINER_STRUCT && large[3] == 2);
  if (large[2] == 0) {  // made by the plain form
    combiner = -1;
    MPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
    WEFT_CHECK(combiner == MPI_COMBINER_STRUCT && types == 2);
    int counts[3];
    MPI_Aint places[2];
    MPI_Datatype parts[2];
    WEFT_CHECK(integers == 3 && addresses == 2);
    MPI_Type_get_contents(type, 3, 2, 2, counts, places, parts);
    WEFT_CHECK(counts[0] == 2 && counts[1] == 1 && counts[2] == 2 && places[1] == 16);
    WEFT_CHECK(parts[0] == MPI_INT && parts[1] == MPI_DOUBLE);
  } else {
    int none[1];
    MPI_Aint nowhere[1];
    MPI_Count counts[5];
    MPI_Datatype parts[2];
    WEFT_CHECK(large[0] == 0 && large[1] == 0 && large[2] == 5);
    MPI_Type_get_contents_c(type, 0, 0, 5, 2, none, nowhere, counts, parts);
    WEFT_CHECK(counts[0] == 2 && counts[1] == 1 && counts[2] == 2 && counts[4] == 16);
    WEFT_CHECK(parts[0] == MPI_INT && parts[1] == MPI_DOUBLE);
    int few[3];
    WEFT_CHECK_CLASS(MPI_ERR_TYPE, MPI_Type_get_contents(type, 3, 2, 2, few, nowhere, parts));
    WEFT_CHECK_CLASS(MPI_ERR_TYPE,
                     MPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner));
  }
  char name[MPI_MAX_OBJECT_NAME];
  int length = -1;
  MPI_Type_get_name(type, name, &length);
  WEFT_CHECK(length == 0);
  MPI_Type_set_name(type, "an int and two doubles");
  MPI_Type_get_name(type, name, &length);
  WEFT_CHECK(std::string(name) == "an int and two doubles" && length == 22);
  MPI_Type_free(&type);
}

void types_by_what_they_hold() {
  MPI_Datatype type;
  MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &type);
  int size = 0;
  MPI_Type_size(type, &size);
  WEFT_CHECK(size == 8);
  WEFT_CHECK_CLASS(MPI_ERR_ARG, MPI_Type_match_size(MPI_TYPECLASS_INTEGER, 3, &type));
  MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT, &type);
  WEFT_CHECK(type == MPI_DOUBLE_INT);
  MPI_Type_create_f90_integer(9, &type);
  MPI_Type_size(type, &size);
  WEFT_CHECK(size == 4);
  MPI_Type_create_f90_real(15, 100, &type);
  MPI_Type_size(type, &size);
  WEFT_CHECK(size == 8);
  MPI_Type_create_f90_complex(6, 30, &type);
  MPI_Type_size(type, &size);
  WEFT_CHECK(size == 8);
}

void external() {
  const int numbers[] = {1, -2, 0x01020304};
  MPI_Aint bytes = 0;
  MPI_Pack_external_size("external32", 3, MPI_INT, &bytes);
  WEFT_CHECK(bytes == 12);
  unsigned char packed[12];
  MPI_Aint position = 0;
  MPI_Pack_external("external32", numbers, 3, MPI_INT, packed, 12, &position);
  WEFT_CHECK(position == 12 && packed[3] == 1 && packed[4] == 0xff && packed[7] == 0xfe);
  WEFT_CHECK(packed[8] == 1 && packed[11] == 4);  // the most significant first
  int back[3] = {};
  position = 0;
  MPI_Unpack_external("external32", packed, 12, &position, back, 3, MPI_INT);
  WEFT_CHECK(position == 12 && std::memcmp(back, numbers, sizeof back) == 0);
}

void addresses_and_elements() {
  int pair[2];
  MPI_Aint first = 0;
  MPI_Aint second = 0;
  MPI_Get_address(&pair[0], &first);
  MPI_Get_address(&pair[1], &second);
  WEFT_CHECK(MPI_Aint_diff(second, first) == sizeof(int));
  WEFT_CHECK(MPI_Aint_add(first, sizeof(int)) == second);
  MPI_Datatype three;
  MPI_Type_contiguous(3, MPI_INT, &three);
  MPI_Type_commit(&three);
  MPI_Status status = {};
  MPI_Status_set_elements_x(&status, three, 7);
  MPI_Count elements = 0;
  MPI_Get_elements_x(&status, three, &elements);
  int count = 0;
  MPI_Get_count(&status, three, &count);
  WEFT_CHECK(elements == 7 && count == MPI_UNDEFINED);
  MPI_Status_set_elements(&status, three, 6);
  MPI_Get_count(&status, three, &count);
  WEFT_CHECK(count == 2);
  // More bytes than can be counted: the status stays as it was.
  WEFT_CHECK_CLASS(MPI_ERR_COUNT, MPI_Status_set_elements_c(&status, MPI_DOUBLE, 1LL << 61));
  WEFT_CHECK_CLASS(MPI_ERR_COUNT, MPI_Status_set_elements_c(&status, MPI_DOUBLE, 1LL << 60));
  WEFT_CHECK_CLASS(MPI_ERR_COUNT, MPI_Status_set_elements_c(&status, MPI_DOUBLE_INT, INT64_MAX));
  MPI_Get_count(&status, three, &count);
  WEFT_CHECK(count == 2);
  WEFT_CHECK_CLASS(MPI_SUCCESS, MPI_Status_set_elements_c(&status, MPI_DOUBLE, (1LL << 60) - 1));
  MPI_Get_elements_c(&status, MPI_DOUBLE, &elements);
  WEFT_CHECK(elements == (1LL << 60) - 1);
  MPI_Type_free(&three);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  blocks();
  subarrays();
  distributed_arrays();
  what_it_is_made_of();
  types_by_what_they_hold();
  external();
  addresses_and_elements();
  MPI_Finalize();
  return result();
}
