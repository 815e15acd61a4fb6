// Short blocking collectives, which a node's ranks make in shared memory when they have made a few:
// in step with all others, at whatever pace each rank comes, with any layout and operation, on more
// communicators than there is such memory for.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>

#include "check.hpp"
#include "pvar.hpp"

namespace {

int rank = 0;
int size = 0;

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

/// Enough calls that there is a board, if there can be one.
void warm_up(MPI_Comm comm) {
  for (int i = 0; i < 6; ++i) MPI_Barrier(comm);
}

/// The element of a rank in a call.
int64_t value(int of_rank, int element, int call) {
  return int64_t{of_rank} * 1000003 + element * 7919 + call * 31;
}
int64_t sum_of(int element, int call) {
  int64_t sum = 0;
  for (int r = 0; r < size; ++r) sum += value(r, element, call);
  return sum;
}

void one_allreduce(MPI_Comm comm, int count, int call) {
  std::vector<int64_t> from;
  std::vector<int64_t> to(static_cast<std::size_t>(count), -1);
  for (int i = 0; i < count; ++i) from.push_back(value(rank, i, call));
  const bool in_place = call % 3 == 0;
  if (in_place) to = from;
  MPI_Allreduce(in_place ? MPI_IN_PLACE : from.data(), to.data(), count, MPI_INT64_T, MPI_SUM,
                comm);
  bool right = true;
  for (int i = 0; i < count; ++i) {
    right = right && to[static_cast<std::size_t>(i)] == sum_of(i, call);
  }
  WEFT_CHECK(right);
}

void one_bcast(MPI_Comm comm, int count, int call) {
  const int root = call % size;
  std::vector<int64_t> data(static_cast<std::size_t>(count), -1);
  for (int i = 0; rank == root && i < count; ++i) {
    data[static_cast<std::size_t>(i)] = value(root, i, call);
  }
  MPI_Bcast(data.data(), count, MPI_INT64_T, root, comm);
  bool right = true;
  for (int i = 0; i < count; ++i) {
    right = right && data[static_cast<std::size_t>(i)] == value(root, i, call);
  }
  WEFT_CHECK(right);
}

/// From every other number of a block, with a gap between blocks, into numbers side by side.
void one_scatter(MPI_Comm comm, int count, int call) {
  const int root = call % size;
  const bool in_place = call % 3 == 0 && rank == root;
  MPI_Datatype apart;
  MPI_Datatype block;
  MPI_Type_vector(count, 1, 2, MPI_INT64_T, &apart);
  MPI_Type_create_resized(apart, 0, (2 * count + 1) * static_cast<MPI_Aint>(sizeof(int64_t)),
                          &block);
  MPI_Type_commit(&block);
  std::vector<int64_t> all(static_cast<std::size_t>((2 * count + 1) * size), -1);
  for (int i = 0; rank == root && i < count * size; ++i) {
    all[static_cast<std::size_t>(i / count * (2 * count + 1) + i % count * 2)] =
        value(i / count, i % count, call);
  }
  std::vector<int64_t> mine(static_cast<std::size_t>(count), -1);
  void* const to = in_place ? MPI_IN_PLACE : mine.data();
  MPI_Scatter(all.data(), 1, block, to, count, MPI_INT64_T, root, comm);
  bool right = true;
  for (int i = 0; !in_place && i < count; ++i) {
    right = right && mine[static_cast<std::size_t>(i)] == value(rank, i, call);
  }
  WEFT_CHECK(right);
  MPI_Type_free(&block);
  MPI_Type_free(&apart);
}

void one_allgather(MPI_Comm comm, int count, int call) {
  const bool in_place = call % 3 == 0;
  std::vector<int64_t> mine;
  std::vector<int64_t> all(static_cast<std::size_t>(count * size), -1);
  for (int i = 0; i < count; ++i) mine.push_back(value(rank, i, call));
  if (in_place) std::copy(mine.begin(), mine.end(), all.begin() + rank * count);
  MPI_Allgather(in_place ? MPI_IN_PLACE : mine.data(), count, MPI_INT64_T, all.data(), count,
                MPI_INT64_T, comm);
  bool right = true;
  for (int i = 0; i < count * size; ++i) {
    right = right && all[static_cast<std::size_t>(i)] == value(i / count, i % count, call);
  }
  WEFT_CHECK(right);
}

/// Blocks of unequal sizes, some empty, in descending order with a gap before each; every other
/// number of a block is left alone.
void one_allgatherv(MPI_Comm comm, int call) {
  MPI_Datatype sparse;
  MPI_Datatype spaced;
  MPI_Type_vector(1, 1, 1, MPI_INT64_T, &sparse);
  MPI_Type_create_resized(sparse, 0, 2 * sizeof(int64_t), &spaced);
  MPI_Type_commit(&spaced);
  std::vector<int> counts;
  std::vector<int> places;
  for (int r = 0; r < size; ++r) {
    counts.push_back((r + call) % 3);
    places.push_back((size - 1 - r) * 3 + 1);
  }
  const auto own = static_cast<std::size_t>(counts[static_cast<std::size_t>(rank)]);
  std::vector<int64_t> mine;
  for (std::size_t i = 0; i < own; ++i) mine.push_back(value(rank, static_cast<int>(i), call));
  std::vector<int64_t> all(static_cast<std::size_t>(size * 6 + 2), -1);
  std::vector<int64_t> expected = all;
  for (int r = 0; r < size; ++r) {
    const auto at = static_cast<std::size_t>(places[static_cast<std::size_t>(r)]);
    for (int i = 0; i < counts[static_cast<std::size_t>(r)]; ++i) {
      expected[2 * (at + static_cast<std::size_t>(i))] = value(r, i, call);
    }
  }
  MPI_Allgatherv(mine.data(), static_cast<int>(own), MPI_INT64_T, all.data(), counts.data(),
                 places.data(), spaced, comm);
  WEFT_CHECK(all == expected);
  MPI_Type_free(&spaced);
  MPI_Type_free(&sparse);
}

/// What rank `from` has for rank `to`.
int64_t letter(int from, int to, int element, int call) {
  return value(from, element, call) + to * 65537;
}

void one_alltoall(MPI_Comm comm, int count, int call) {
  const bool in_place = call % 3 == 0;
  std::vector<int64_t> out;
  for (int i = 0; i < count * size; ++i) out.push_back(letter(rank, i / count, i % count, call));
  std::vector<int64_t> in(out.size(), -1);
  if (in_place) in = out;
  MPI_Alltoall(in_place ? MPI_IN_PLACE : out.data(), count, MPI_INT64_T, in.data(), count,
               MPI_INT64_T, comm);
  bool right = true;
  for (int i = 0; i < count * size; ++i) {
    right = right && in[static_cast<std::size_t>(i)] == letter(i / count, rank, i % count, call);
  }
  WEFT_CHECK(right);
}

/// Blocks of unequal sizes, some empty; what comes goes to every other number. Every third call
/// names types of each; of the others some are in place, as long both ways.
void one_alltoall_of_unlike(MPI_Comm comm, int call) {
  const bool in_place = call % 3 != 0 && call % 4 == 1;
  const auto length = [=](int from, int to) {
    return (from + (in_place ? 1 : 2) * to + call) % 5 * 12;
  };
  MPI_Datatype spaced;
  MPI_Type_create_resized(MPI_INT64_T, 0, 2 * sizeof(int64_t), &spaced);
  MPI_Type_commit(&spaced);
  std::vector<int> counts_out, counts_in, at_out, at_in;
  std::vector<int64_t> out;
  std::vector<int64_t> expected;
  for (int r = 0; r < size; ++r) {
    at_out.push_back(static_cast<int>(out.size()));
    at_in.push_back(static_cast<int>(expected.size() / 2));
    counts_out.push_back(length(rank, r));
    counts_in.push_back(length(r, rank));
    for (int i = 0; i < counts_out.back(); ++i) out.push_back(letter(rank, r, i, call));
    for (int i = 0; i < counts_in.back(); ++i) {
      expected.push_back(letter(r, rank, i, call));
      expected.push_back(-1);
    }
  }
  std::vector<int64_t> in(expected.size() + 2, -1);
  for (std::size_t i = 0; in_place && i < out.size(); ++i) in[2 * i] = out[i];
  expected.resize(in.size(), -1);
  out.resize(out.size() + 1);
  if (call % 3 != 0) {
    MPI_Alltoallv(in_place ? MPI_IN_PLACE : out.data(), counts_out.data(), at_out.data(),
                  MPI_INT64_T, in.data(), counts_in.data(), at_in.data(), spaced, comm);
  } else {
    for (int& at : at_out) at *= static_cast<int>(sizeof(int64_t));
    for (int& at : at_in) at *= 2 * static_cast<int>(sizeof(int64_t));
    const auto ranks = static_cast<std::size_t>(size);
    const std::vector<MPI_Datatype> types_out(ranks, MPI_INT64_T), types_in(ranks, spaced);
    MPI_Alltoallw(out.data(), counts_out.data(), at_out.data(), types_out.data(), in.data(),
                  counts_in.data(), at_in.data(), types_in.data(), comm);
  }
  WEFT_CHECK(in == expected);
  MPI_Type_free(&spaced);
}

void add_spaced(void* from, void* to, int* count, MPI_Datatype* type) {
  MPI_Aint low = 0;
  MPI_Aint extent = 0;
  MPI_Type_get_extent(*type, &low, &extent);
  const auto stride = static_cast<std::size_t>(extent) / sizeof(int64_t);
  for (std::size_t i = 0; i < static_cast<std::size_t>(*count); ++i)
    static_cast<int64_t*>(to)[i * stride] += static_cast<const int64_t*>(from)[i * stride];
}

/// Parts of unequal sizes, some empty, or of equal ones; of vectors side by side or spaced.
void one_reduce_scatter(MPI_Comm comm, int each, int call) {
  const bool in_place = call % 3 == 0;
  const bool equal = call % 4 < 2;
  const int stride = 1 + call / 5 % 2;
  const bool is_ours = stride == 2 || call % 7 < 3;
  MPI_Op sum = MPI_SUM;
  MPI_Datatype type = MPI_INT64_T;
  if (is_ours) MPI_Op_create(add_spaced, 1, &sum);
  if (stride == 2) {
    MPI_Type_create_resized(MPI_INT64_T, 0, 2 * sizeof(int64_t), &type);
    MPI_Type_commit(&type);
  }
  std::vector<int> counts;
  int before = 0;
  int all = 0;
  for (int r = 0; r < size; ++r) {
    counts.push_back(equal ? each : (r + call / 3) % 3 * each);
    if (r < rank) before += counts.back();
    all += counts.back();
  }
  const int own = counts[static_cast<std::size_t>(rank)];
  std::vector<int64_t> from(static_cast<std::size_t>(all * stride + 1), -1);
  for (int i = 0; i < all; ++i) from[static_cast<std::size_t>(i * stride)] = value(rank, i, call);
  std::vector<int64_t> to(static_cast<std::size_t>(own * stride + 1), -1);
  std::vector<int64_t>& got = in_place ? from : to;
  const void* const given = in_place ? MPI_IN_PLACE : from.data();
  if (equal) {
    MPI_Reduce_scatter_block(given, got.data(), each, type, sum, comm);
  } else {
    MPI_Reduce_scatter(given, got.data(), counts.data(), type, sum, comm);
  }
  bool right = true;
  for (int i = 0; i < own; ++i) {
    right = right && got[static_cast<std::size_t>(i * stride)] == sum_of(before + i, call);
  }
  WEFT_CHECK(right);
  if (stride == 2) MPI_Type_free(&type);
  if (is_ours) MPI_Op_free(&sum);
}

/// Sizes on both sides of what fits, in turns with nonblocking ones.
void sizes(MPI_Comm comm) {
  for (int count = 0; count < 40; ++count) {
    one_allreduce(comm, count, count);
    one_allgather(comm, count % 13, count);
    one_allgatherv(comm, count);
    one_alltoall(comm, count, count);
    one_alltoall_of_unlike(comm, count);
    one_reduce_scatter(comm, count, count);
    MPI_Request request;
    int64_t sum = 0;
    const int64_t one = 1;
    MPI_Iallreduce(&one, &sum, 1, MPI_INT64_T, MPI_SUM, comm, &request);
    one_bcast(comm, count, count + 1);
    one_scatter(comm, count % 13, count + 1);
    MPI_Barrier(comm);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    WEFT_CHECK(sum == size);
  }
}

/// Roots that run ahead, each in its turn, or one for long.
void streams(MPI_Comm comm) {
  for (int call = 0; call < 500; ++call) one_bcast(comm, 1 + call % 5, call);
  for (int call = 0; call < 500; ++call) one_bcast(comm, 1, call / 250 * (size - 1));
  for (int call = 0; call < 200; ++call) one_scatter(comm, 1 + call % 5, call);
  for (int call = 0; call < 200; ++call) one_scatter(comm, 1, call / 100 * (size - 1));
}

/// In step: nobody leaves a barrier before all have come.
void barriers(MPI_Comm comm) {
  for (int call = 0; call < 20; ++call) {
    const double came = MPI_Wtime();
    MPI_Barrier(comm);
    const double left = MPI_Wtime();  // one clock for a machine
    double last = 0;
    double first = 0;
    MPI_Allreduce(&came, &last, 1, MPI_DOUBLE, MPI_MAX, comm);
    MPI_Allreduce(&left, &first, 1, MPI_DOUBLE, MPI_MIN, comm);
    WEFT_CHECK(first >= last);
  }
}

/// Two-by-two matrices modulo a prime: the order of factors matters.
using Matrix = std::array<int64_t, 4>;
constexpr int64_t kPrime = 1000003;
Matrix times(const Matrix& a, const Matrix& b) {
  return {(a[0] * b[0] + a[1] * b[2]) % kPrime, (a[0] * b[1] + a[1] * b[3]) % kPrime,
          (a[2] * b[0] + a[3] * b[2]) % kPrime, (a[2] * b[1] + a[3] * b[3]) % kPrime};
}
void multiply(void* from, void* to, int* count, MPI_Datatype* /*type*/) {
  const auto* left = static_cast<const Matrix*>(from);
  auto* right = static_cast<Matrix*>(to);
  for (int i = 0; i < *count; ++i) right[i] = times(left[i], right[i]);
}

/// Of five rows, each `count` numbers of all five columns.
void add_columns(void* from, void* to, int* count, MPI_Datatype* /*type*/) {
  for (int column = 0; column < *count; ++column) {
    for (int row = 0; row < 5; ++row) {
      static_cast<int64_t*>(to)[row * 5 + column] +=
          static_cast<const int64_t*>(from)[row * 5 + column];
    }
  }
}

void operations_and_layouts(MPI_Comm comm) {
  MPI_Op op;
  MPI_Op_create(multiply, 0, &op);
  MPI_Datatype type;
  MPI_Type_contiguous(4, MPI_INT64_T, &type);
  MPI_Type_commit(&type);
  const auto matrix_of = [](int of_rank, int call) {
    return Matrix{of_rank + 1, call + 2, of_rank * call + 3, 5};
  };
  for (int call = 0; call < 20; ++call) {
    const Matrix mine = matrix_of(rank, call);
    Matrix product{};
    MPI_Allreduce(&mine, &product, 1, type, op, comm);
    Matrix expected = matrix_of(0, call);
    for (int r = 1; r < size; ++r) expected = times(expected, matrix_of(r, call));
    WEFT_CHECK(product == expected);
  }
  MPI_Type_free(&type);
  MPI_Op_free(&op);

  // Columns of a matrix, which interlace.
  constexpr int kRows = 5;
  MPI_Datatype apart;
  MPI_Datatype column;
  MPI_Type_vector(kRows, 1, kRows, MPI_INT64_T, &apart);
  MPI_Type_create_resized(apart, 0, sizeof(int64_t), &column);
  MPI_Type_commit(&column);
  MPI_Op add;
  MPI_Op_create(add_columns, 1, &add);
  for (int call = 0; call < 6; ++call) {
    std::vector<int64_t> from;
    std::vector<int64_t> to(kRows * kRows, -1);
    for (int i = 0; i < kRows * kRows; ++i) from.push_back(value(rank, i, call));
    if (call % 2 == 0) {
      MPI_Allreduce(from.data(), to.data(), kRows, column, add, comm);
    } else {
      MPI_Reduce(from.data(), to.data(), kRows, column, add, call % size, comm);
    }
    bool right = true;
    for (int i = 0; i < kRows * kRows; ++i) {
      right = right && to[static_cast<std::size_t>(i)] == sum_of(i, call);
    }
    WEFT_CHECK(right || (call % 2 == 1 && rank != call % size));
  }
  MPI_Op_free(&add);
  MPI_Type_free(&column);
  MPI_Type_free(&apart);

  struct {
    double value;
    int rank;
  } mine{static_cast<double>((rank * 7) % size), rank}, largest{};
  MPI_Allreduce(&mine, &largest, 1, MPI_DOUBLE_INT, MPI_MAXLOC, comm);
  int where = 0;
  for (int r = 1; r < size; ++r) {
    if ((r * 7) % size > (where * 7) % size) where = r;
  }
  WEFT_CHECK(largest.rank == where);

  MPI_Datatype stripes;
  MPI_Type_vector(5, 1, 3, MPI_INT, &stripes);
  MPI_Type_commit(&stripes);
  for (int root = 0; root < size; ++root) {
    std::array<int, 15> data{};
    for (std::size_t i = 0; rank == root && i < data.size(); ++i) data[i] = static_cast<int>(i) + 1;
    MPI_Bcast(data.data(), 1, stripes, root, comm);
    for (std::size_t i = 0; i < data.size(); ++i) {
      WEFT_CHECK(data[i] == (rank == root || i % 3 == 0 ? static_cast<int>(i) + 1 : 0));
    }
  }
  MPI_Type_free(&stripes);
}

/// Each rank is late in its turn: the others fall asleep meanwhile.
void late_ones(MPI_Comm comm) {
  for (int late = 0; late < size; ++late) {
    for (int kind = 0; kind < 6; ++kind) {
      if (rank == late) sleep_ms(15);
      if (kind == 0) MPI_Barrier(comm);
      if (kind == 1) one_allreduce(comm, 3, late);
      if (kind == 2) one_bcast(comm, 3, late);
      if (kind == 3) one_scatter(comm, 1, late);
      if (kind == 4) one_alltoall(comm, 1, late);
      if (kind == 5) one_reduce_scatter(comm, 1, 1);
    }
  }
  // One root after the other, all of them late.
  for (int call = 0; call < size; ++call) {
    if (rank == call % size) sleep_ms(15);
    one_bcast(comm, 2, call);
  }
}

/// While a rank waits in a collective it serves what others want of it.
void serves_meanwhile(MPI_Comm comm) {
  if (size < 3) return;
  std::vector<char> large(std::size_t{1} << 20, 'x');
  MPI_Request request = MPI_REQUEST_NULL;
  const int count = static_cast<int>(large.size());
  if (rank == 1) MPI_Irecv(large.data(), count, MPI_CHAR, 2, 5, comm, &request);
  // Rank 2 comes when rank 1, which waits for it here, has taken the message.
  if (rank == 2) MPI_Ssend(large.data(), count, MPI_CHAR, 1, 5, comm);
  MPI_Barrier(comm);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/// One rank's call fails for its arguments: it has not taken part, and calls again.
void bcast_at_second_try(MPI_Comm comm, int call, bool wrong) {
  int64_t word = rank == 0 ? value(0, 0, call) : -1;
  if (wrong && rank == size - 1) {
    WEFT_CHECK(class_of(MPI_Bcast(&word, -1, MPI_INT64_T, 0, comm)) == MPI_ERR_COUNT);
    WEFT_CHECK(word == (rank == 0 ? value(0, 0, call) : -1));
  }
  WEFT_CHECK(MPI_Bcast(&word, 1, MPI_INT64_T, 0, comm) == MPI_SUCCESS);
  WEFT_CHECK(word == value(0, 0, call));
}

/// Blocks larger than the room for them are told of: each gets what it has room for.
void scatter_mismatch(MPI_Comm comm) {
  std::vector<int64_t> blocks(static_cast<std::size_t>(2 * size), 7);
  std::array<int64_t, 2> mine{};
  const int room = rank == 0 ? 2 : 1;
  const int cut =
      MPI_Scatter(blocks.data(), 2, MPI_INT64_T, mine.data(), room, MPI_INT64_T, 0, comm);
  WEFT_CHECK(class_of(cut) == (rank == 0 ? MPI_SUCCESS : MPI_ERR_TRUNCATE));
  WEFT_CHECK(mine[1] == (rank == 0 ? 7 : 0));
  one_scatter(comm, 1, 1);
}

/// Two ranks of which one gives more than the other takes: little, or so much that it goes by
/// messages.
void exchange_mismatch(MPI_Comm comm) {
  for (const int most : {2, 100}) {
    std::vector<int64_t> out(200, 7);
    std::vector<int64_t> in(200, 0);
    const int count = rank == 0 ? most : 1;
    const int code =
        MPI_Alltoall(out.data(), count, MPI_INT64_T, in.data(), count, MPI_INT64_T, comm);
    // Who has room for more is not told, by either way.
    WEFT_CHECK(class_of(code) == (rank == 1 ? MPI_ERR_TRUNCATE : MPI_SUCCESS));
    WEFT_CHECK(in[0] == 7);
    const int sum =
        MPI_Reduce_scatter_block(out.data(), in.data(), count, MPI_INT64_T, MPI_SUM, comm);
    if (rank == 1) WEFT_CHECK(class_of(sum) == MPI_ERR_TRUNCATE);
    one_alltoall(comm, 3, 1);
    one_reduce_scatter(comm, 2, 1);
  }
}

/// The same while there is no board yet: in each of the first calls, one of which makes it.
void early_exchange_mismatch(MPI_Comm comm) {
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  static int before = 0;
  for (int call = 0; call < before; ++call) one_alltoall(comm, 1, call);
  std::vector<int64_t> out(200, 7);
  std::vector<int64_t> in(200, 0);
  const int count = rank == 0 ? 100 : 1;
  const int code =
      MPI_Alltoall(out.data(), count, MPI_INT64_T, in.data(), count, MPI_INT64_T, comm);
  WEFT_CHECK(class_of(code) == (rank == 1 ? MPI_ERR_TRUNCATE : MPI_SUCCESS));
  exchange_mismatch(comm);
  ++before;
}

/// More ranks, of which one gives more than the others take: all are told.
void exchange_mismatch_of_several(MPI_Comm comm) {
  for (const int count : {1, 2, size}) {
    const int mine = rank == 1 ? count + 1 : count;
    std::vector<int64_t> out(static_cast<std::size_t>((count + 1) * size), 7);
    std::vector<int64_t> in(static_cast<std::size_t>((count + 1) * size), 0);
    const auto is_told = [&](int code) {
      WEFT_CHECK(class_of(code) == MPI_ERR_TRUNCATE);
      one_allreduce(comm, count, count);
    };
    is_told(MPI_Allreduce(out.data(), in.data(), mine, MPI_INT64_T, MPI_SUM, comm));
    is_told(MPI_Allgather(out.data(), mine, MPI_INT64_T, in.data(), mine, MPI_INT64_T, comm));
    is_told(MPI_Alltoall(out.data(), mine, MPI_INT64_T, in.data(), mine, MPI_INT64_T, comm));
    is_told(MPI_Reduce_scatter_block(out.data(), in.data(), mine, MPI_INT64_T, MPI_SUM, comm));
    one_alltoall(comm, 1, 1);
    one_reduce_scatter(comm, 1, 1);
  }
}

/// Counts that do not fit are told to those who have too little room; what comes next is right.
void mismatch(MPI_Comm comm, bool one_node) {
  if (size < 2) return;
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  std::array<int64_t, 8> data{};
  const int code = MPI_Bcast(data.data(), rank == 0 ? 8 : 4, MPI_INT64_T, 0, comm);
  // On other nodes only those who lead them see what came.
  if (one_node) WEFT_CHECK(class_of(code) == (rank == 0 ? MPI_SUCCESS : MPI_ERR_TRUNCATE));
  one_bcast(comm, 4, 1);
  if (one_node) scatter_mismatch(comm);
  if (one_node && size == 2) exchange_mismatch(comm);
  if (one_node && (size == 3 || size == 5)) exchange_mismatch_of_several(comm);
  for (int call = 0; call < 50; ++call) bcast_at_second_try(comm, call, call % 7 == 3);
  one_allreduce(comm, 2, 9);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
}

/// A call that fails on one rank before there is a board.
void early_mistake(MPI_Comm comm) {
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  for (int call = 0; call < 10; ++call) {
    bcast_at_second_try(comm, call, call == 1);
    if (call % 4 == 3) one_allreduce(comm, 1, call);
  }
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
}

/// Said to commute, though it does not.
void subtract(void* from, void* to, int* count, MPI_Datatype* /*type*/) {
  for (int i = 0; i < *count; ++i)
    static_cast<double*>(to)[i] = 2 * static_cast<double*>(from)[i] - static_cast<double*>(to)[i];
}

void same_results_of_parts(MPI_Comm comm) {
  MPI_Op ours;
  MPI_Op_create(subtract, 1, &ours);
  std::vector<double> mine;
  for (int i = 0; i < size; ++i) mine.push_back((rank % 3 - 1) * 1e16 + 1.0 / (i + 3));
  for (const MPI_Op op : {MPI_SUM, ours}) {
    double first = 0;
    for (int call = 0; call < 10; ++call) {
      double result = 0;
      if (call % 3 == 2) {
        MPI_Request request;
        MPI_Ireduce_scatter_block(mine.data(), &result, 1, MPI_DOUBLE, op, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
      } else {
        MPI_Reduce_scatter_block(mine.data(), &result, 1, MPI_DOUBLE, op, comm);
      }
      if (call == 0) first = result;
      WEFT_CHECK(std::memcmp(&first, &result, sizeof first) == 0);
      if (call == 3) warm_up(comm);  // there is a board then
    }
  }
  MPI_Op_free(&ours);
}

/// The order of additions is the same with a board and without: before there is one, and in calls
/// that do not block.
void same_results(MPI_Comm comm) {
  const double mine[] = {(rank % 3 - 1) * 1e16 + 1.0, 1.0 / (rank + 3)};
  double first[2]{};
  for (int call = 0; call < 10; ++call) {
    double sums[2]{};
    if (call % 3 == 2) {
      MPI_Request request;
      MPI_Iallreduce(mine, sums, 2, MPI_DOUBLE, MPI_SUM, comm, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
      MPI_Allreduce(mine, sums, 2, MPI_DOUBLE, MPI_SUM, comm);
    }
    if (call == 0) std::memcpy(first, sums, sizeof first);
    WEFT_CHECK(std::memcmp(first, sums, sizeof first) == 0);
  }
}

void on_a_new_one(void (*check)(MPI_Comm)) {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  check(comm);
  MPI_Comm_free(&comm);
}

/// More communicators at once than there are boards, freed in another order than made; then again,
/// with boards that others had before.
void many_communicators() {
  constexpr int kComms = 141;
  for (int round = 0; round < 2; ++round) {
    std::array<MPI_Comm, kComms> comms;
    for (MPI_Comm& comm : comms) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int call = 0; call < 6; ++call) {
      for (int i = 0; i < kComms; ++i) {
        const MPI_Comm comm = comms[static_cast<std::size_t>((i * 7 + round) % kComms)];
        if (i % 2 == 0 || call == 3) one_allreduce(comm, 2, call + i);  // makes a board
        one_bcast(comm, 2, call + i);
      }
    }
    for (int i = 0; i < kComms; ++i) {
      MPI_Comm_free(&comms[static_cast<std::size_t>((i * 5 + round) % kComms)]);
    }
  }
}

void threads() {
  constexpr std::size_t kThreads = 3;
  std::array<MPI_Comm, kThreads> comms;
  for (MPI_Comm& comm : comms) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  {
    std::vector<std::jthread> all;
    for (const MPI_Comm comm : comms) {
      all.emplace_back([comm] {
        for (int call = 0; call < 60; ++call) {
          one_allreduce(comm, 1, call);
          one_bcast(comm, 2, call);
        }
      });
    }
  }
  for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
}

/// Once there is a board no messages are sent but to who sleeps. After many communicators: there is
/// one only if those of others are used again.
void sends_nothing(MPI_Comm comm) {
  int provided = 0;
  MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided);
  MPI_T_pvar_session_create(&session);
  const Counter sent("comm_messages_sent", comm);
  int was_quiet = 0;
  int all_were = 0;
  // Where the machine is busy, somebody often falls asleep, and others write to it.
  for (int batch = 0; batch < 1000 && all_were == 0; ++batch) {
    const uint64_t before = sent.value();
    for (int call = 0; call < 5; ++call) {
      MPI_Barrier(comm);
      one_allreduce(comm, 1, call);
      one_allgather(comm, 1, call);
      if (size > 2) one_bcast(comm, 1, call);  // of two, messages are as good
      if (size > 2) one_scatter(comm, 1, call);
      if (size <= 16) one_alltoall(comm, 1, call);
      if (size <= 16) one_reduce_scatter(comm, 1, call % 2);  // of equal parts
    }
    if (sent.value() == before) was_quiet = 1;
    MPI_Allreduce(&was_quiet, &all_were, 1, MPI_INT, MPI_MIN, comm);
  }
  WEFT_CHECK(all_were == 1);
  MPI_T_pvar_session_free(&session);
  MPI_T_finalize();
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const bool one_node = argc > 1 && std::string_view(argv[1]) == "one_node";

  sizes(MPI_COMM_WORLD);  // some before there is a board
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  warm_up(comm);
  sizes(comm);
  streams(comm);
  barriers(comm);
  operations_and_layouts(comm);
  late_ones(comm);
  serves_meanwhile(comm);
  mismatch(comm, one_node);
  many_communicators();
  threads();
  on_a_new_one(early_mistake);
  for (int time = 0; one_node && size == 2 && time < 5; ++time)
    on_a_new_one(early_exchange_mismatch);
  on_a_new_one(same_results);
  on_a_new_one(same_results_of_parts);
  if (one_node) on_a_new_one(sends_nothing);
  MPI_Comm_free(&comm);

  MPI_Finalize();
  return result();
}
