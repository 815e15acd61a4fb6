// Messages and collectives of more than 2^31 elements, which the large counts are for: 2 ranks, 9
// GiB.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "check.hpp"

namespace {

constexpr MPI_Count kMany = (MPI_Count{1} << 31) + 12345;  // bytes

/// Told from its neighbours at any distance that a count cut to 32 bits would make.
char value_at(MPI_Count at) { return static_cast<char>(at * 2654435761U >> 24); }

bool is_filled(const std::vector<char>& data) {
  for (std::size_t i = 0; i < data.size(); ++i) {
    if (data[i] != value_at(static_cast<MPI_Count>(i))) return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::vector<char> data(static_cast<std::size_t>(kMany));
  const auto fill = [&] {
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = value_at(static_cast<MPI_Count>(i));
  };
  const auto clear = [&] { std::fill(data.begin(), data.end(), '\0'); };

  // A message, found by a probe first.
  if (rank == 0) {
    fill();
    WEFT_CHECK(MPI_Send_c(data.data(), kMany, MPI_CHAR, 1, 1, MPI_COMM_WORLD) == MPI_SUCCESS);
  } else {
    MPI_Status status;
    MPI_Count count = 0;
    MPI_Probe(0, 1, MPI_COMM_WORLD, &status);
    WEFT_CHECK(MPI_Get_count_c(&status, MPI_CHAR, &count) == MPI_SUCCESS && count == kMany);
    int small = 0;
    MPI_Get_count(&status, MPI_CHAR, &small);
    WEFT_CHECK(small == MPI_UNDEFINED);
    WEFT_CHECK(MPI_Recv_c(data.data(), kMany, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &status) ==
               MPI_SUCCESS);
    WEFT_CHECK(MPI_Get_count_c(&status, MPI_CHAR, &count) == MPI_SUCCESS && count == kMany);
    WEFT_CHECK(is_filled(data));
    clear();
  }
  // With holes: every other pair of bytes.
  MPI_Datatype pairs;
  MPI_Type_vector_c(kMany / 4, 2, 4, MPI_CHAR, &pairs);
  MPI_Type_commit(&pairs);
  if (rank == 0) {
    WEFT_CHECK(MPI_Ssend(data.data(), 1, pairs, 1, 2, MPI_COMM_WORLD) == MPI_SUCCESS);
  } else {
    WEFT_CHECK(MPI_Recv(data.data(), 1, pairs, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE) ==
               MPI_SUCCESS);
    bool right = true;
    for (MPI_Count i = 0; i < kMany / 4 * 4; ++i) {
      const char wanted = i % 4 < 2 ? value_at(i) : '\0';
      right = right && data[static_cast<std::size_t>(i)] == wanted;
    }
    WEFT_CHECK(right);
    clear();
  }
  MPI_Type_free(&pairs);
  // To all, and from all.
  WEFT_CHECK(MPI_Bcast_c(data.data(), kMany, MPI_CHAR, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
  WEFT_CHECK(is_filled(data));
  WEFT_CHECK(MPI_Allreduce_c(MPI_IN_PLACE, data.data(), kMany, MPI_CHAR, MPI_BXOR,
                             MPI_COMM_WORLD) == MPI_SUCCESS);
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size % 2 == 0) {
    bool right = true;
    for (const char each : data) right = right && each == '\0';
    WEFT_CHECK(right);
  }
  MPI_Finalize();
  return result();
}
