// Derived types between ranks: every rank sends to its right neighbour, packed and as it lies, and
// checks what came; element counts of what was shorter than the receive; reductions by pairs and by
// the program's own operation; attributes and names of datatypes.
#include <mpi.h>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

int g_rank = 0;
int g_size = 1;
int g_wrong = 0;

void expect(bool holds, const char* what) {
  if (holds) return;
  ++g_wrong;
  std::fprintf(stderr, "rank %d: %s\n", g_rank, what);
}

int right() { return (g_rank + 1) % g_size; }
int left() { return (g_rank + g_size - 1) % g_size; }

/// A column of a matrix goes out, a row comes in.
void columns() {
  constexpr int kRows = 40;
  constexpr int kColumns = 30;
  MPI_Datatype column;
  MPI_Type_vector(kRows, 1, kColumns, MPI_DOUBLE, &column);
  MPI_Type_commit(&column);
  std::vector<double> matrix(kRows * kColumns);
  for (std::size_t i = 0; i < matrix.size(); ++i) matrix[i] = g_rank * 1e6 + static_cast<double>(i);
  double row[kRows];
  MPI_Status status;
  MPI_Sendrecv(&matrix[3], 1, column, right(), 1, row, kRows, MPI_DOUBLE, left(), 1, MPI_COMM_WORLD,
               &status);
  for (int i = 0; i < kRows; ++i) {
    expect(row[i] == left() * 1e6 + i * kColumns + 3, "a column's element is wrong");
  }
  int count;
  MPI_Get_count(&status, column, &count);
  expect(count == 1, "one column was received");
  MPI_Get_elements(&status, column, &count);
  expect(count == kRows, "a column has an element per row");
  // And the other way: a row of numbers lands in a column.
  MPI_Sendrecv(row, kRows, MPI_DOUBLE, left(), 2, &matrix[7], 1, column, right(), 2, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  for (int i = 0; i < kRows; ++i) {
    expect(matrix[static_cast<std::size_t>(i * kColumns + 7)] == g_rank * 1e6 + i * kColumns + 3,
           "what came back is not what was sent");
    expect(matrix[static_cast<std::size_t>(i * kColumns + 8)] == g_rank * 1e6 + i * kColumns + 8,
           "a neighbour of the column was touched");
  }
  MPI_Type_free(&column);
}

/// Large enough for a rendezvous, in pieces that are no multiple of anything.
void large_blocks() {
  constexpr int kBlocks = 30000;
  std::vector<int> lengths(kBlocks);
  std::vector<int> places(kBlocks);
  int at = 0;
  for (int i = 0; i < kBlocks; ++i) {
    lengths[static_cast<std::size_t>(i)] = 1 + i % 5;
    places[static_cast<std::size_t>(i)] = at;
    at += 7;
  }
  MPI_Datatype type;
  MPI_Type_indexed(kBlocks, lengths.data(), places.data(), MPI_SHORT, &type);
  MPI_Type_commit(&type);
  std::vector<short> out(static_cast<std::size_t>(at));
  std::vector<short> in(static_cast<std::size_t>(at), -1);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<short>((i + g_rank) % 1000);
  MPI_Request requests[2];
  MPI_Irecv(in.data(), 1, type, left(), 3, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(out.data(), 1, type, right(), 3, MPI_COMM_WORLD, &requests[1]);
  MPI_Type_free(&type);  // what is under way goes on
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  for (std::size_t i = 0; i < in.size(); ++i) {
    const bool covered = static_cast<int>(i % 7) < 1 + static_cast<int>(i / 7) % 5;
    const int expected = covered ? static_cast<int>((i + left()) % 1000) : -1;
    if (in[i] != expected) return expect(false, "a block of a large message is wrong");
  }
}

struct Record {
  char letter;
  double number;
  int list[3];
};

MPI_Datatype record_type() {
  const int lengths[] = {1, 1, 3};
  const MPI_Aint places[] = {offsetof(Record, letter), offsetof(Record, number),
                             offsetof(Record, list)};
  const MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE, MPI_INT};
  MPI_Datatype plain;
  MPI_Type_create_struct(3, lengths, places, types, &plain);
  MPI_Datatype type;
  MPI_Type_create_resized(plain, 0, sizeof(Record), &type);
  MPI_Type_free(&plain);
  MPI_Type_commit(&type);
  return type;
}

/// Fewer elements than the receive has room for.
void partial_records() {
  MPI_Datatype type = record_type();
  Record out[2] = {{'a', 1.5, {g_rank, 2, 3}}, {'b', 2.5, {4, 5, 6}}};
  Record in[4] = {};
  MPI_Status status;
  MPI_Sendrecv(out, 2, type, right(), 4, in, 4, type, left(), 4, MPI_COMM_WORLD, &status);
  int count;
  MPI_Get_count(&status, type, &count);
  expect(count == 2, "two records were received");
  MPI_Get_elements(&status, type, &count);
  expect(count == 10, "two records have ten elements");
  expect(
      in[0].letter == 'a' && in[0].number == 1.5 && in[0].list[0] == left() && in[1].list[2] == 6,
      "a record is wrong");
  MPI_Type_free(&type);
}

void packing() {
  MPI_Datatype type = record_type();
  Record record = {'q', 4.5, {g_rank, 8, 9}};
  int size;
  MPI_Pack_size(2, type, MPI_COMM_WORLD, &size);
  std::vector<char> packed(static_cast<std::size_t>(size) + 64);
  int position = 0;
  int header = 17;
  MPI_Pack(&header, 1, MPI_INT, packed.data(), static_cast<int>(packed.size()), &position,
           MPI_COMM_WORLD);
  MPI_Pack(&record, 1, type, packed.data(), static_cast<int>(packed.size()), &position,
           MPI_COMM_WORLD);
  std::vector<char> got(packed.size());
  MPI_Sendrecv(packed.data(), position, MPI_PACKED, right(), 5, got.data(),
               static_cast<int>(got.size()), MPI_PACKED, left(), 5, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  position = 0;
  header = 0;
  record = {};
  MPI_Unpack(got.data(), static_cast<int>(got.size()), &position, &header, 1, MPI_INT,
             MPI_COMM_WORLD);
  MPI_Unpack(got.data(), static_cast<int>(got.size()), &position, &record, 1, type, MPI_COMM_WORLD);
  expect(header == 17 && record.letter == 'q' && record.number == 4.5 && record.list[0] == left(),
         "what was unpacked is wrong");
  MPI_Type_free(&type);
}

void add_columns(void* in, void* inout, int* length, MPI_Datatype* type) {
  MPI_Aint lower;
  MPI_Aint extent;
  MPI_Type_get_extent(*type, &lower, &extent);
  for (int i = 0; i < *length; ++i) {
    const auto* from = reinterpret_cast<int*>(static_cast<char*>(in) + i * extent);
    auto* to = reinterpret_cast<int*>(static_cast<char*>(inout) + i * extent);
    to[0] += from[0];
    to[2] += from[2];
  }
}

void reductions() {
  struct {
    double value;
    int index;
  } mine[2] = {{static_cast<double>((g_rank * 7) % g_size), g_rank}, {1.0, g_rank}}, best[2];
  MPI_Allreduce(mine, best, 2, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
  double most = 0;
  int where = 0;
  for (int i = 0; i < g_size; ++i) {
    if ((i * 7) % g_size > most) {
      most = (i * 7) % g_size;
      where = i;
    }
  }
  expect(best[0].value == most && best[0].index == where, "MPI_MAXLOC is wrong");
  expect(best[1].index == 0, "MPI_MAXLOC of equal values gives the lowest index");

  MPI_Datatype type;
  MPI_Type_vector(2, 1, 2, MPI_INT, &type);
  MPI_Type_commit(&type);
  MPI_Op op;
  MPI_Op_create(add_columns, 1, &op);
  int in[] = {1, 50, g_rank};
  int out[] = {-1, -1, -1};
  MPI_Allreduce(in, out, 1, type, op, MPI_COMM_WORLD);
  expect(out[0] == g_size && out[2] == g_size * (g_size - 1) / 2,
         "the program's own operation on a derived type is wrong");
  MPI_Op_free(&op);
  MPI_Type_free(&type);
}

int g_copied = 0;
int g_deleted = 0;

int copy_attribute(MPI_Datatype, int, void*, void* value, void* result, int* flag) {
  ++g_copied;
  *static_cast<void**>(result) = value;
  *flag = 1;
  return MPI_SUCCESS;
}
int delete_attribute(MPI_Datatype, int, void*, void*) {
  ++g_deleted;
  return MPI_SUCCESS;
}

void attributes() {
  int keyval;
  MPI_Type_create_keyval(copy_attribute, delete_attribute, &keyval, nullptr);
  MPI_Datatype type;
  MPI_Type_contiguous(3, MPI_INT, &type);
  int value = 5;
  MPI_Type_set_attr(type, keyval, &value);
  MPI_Datatype copy;
  MPI_Type_dup(type, &copy);
  int* found = nullptr;
  int flag = 0;
  MPI_Type_get_attr(copy, keyval, &found, &flag);
  expect(flag != 0 && found == &value && g_copied == 1, "a duplicate has the attributes");
  MPI_Type_delete_attr(copy, keyval);
  expect(g_deleted == 1, "an attribute's end was not told");
  MPI_Type_get_attr(copy, keyval, &found, &flag);
  expect(flag == 0, "a deleted attribute is still there");
  MPI_Type_free(&copy);
  MPI_Type_free(&type);
  expect(g_deleted == 2, "the end of a type ends its attributes");
  MPI_Type_free_keyval(&keyval);
}

void large_counts() {
  MPI_Datatype type;
  MPI_Type_contiguous_c(3, MPI_INT, &type);
  MPI_Count numbers[4];
  int combiner;
  MPI_Type_get_envelope_c(type, &numbers[0], &numbers[1], &numbers[2], &numbers[3], &combiner);
  expect(combiner == MPI_COMBINER_CONTIGUOUS && numbers[0] == 0 && numbers[1] == 0 &&
             numbers[2] == 1 && numbers[3] == 1,
         "a type made with large counts has large counts");
  MPI_Type_free(&type);
  MPI_Type_contiguous(1 << 30, MPI_DOUBLE, &type);
  int size;
  MPI_Type_size(type, &size);
  expect(size == MPI_UNDEFINED, "a size that an int cannot hold is undefined");
  MPI_Count large;
  MPI_Type_size_c(type, &large);
  expect(large == MPI_Count{8} << 30, "a large size is wrong");
  MPI_Type_free(&type);
}

void errors() {
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int x = 0;
  int error_class = 0;
  MPI_Datatype type;
  MPI_Type_vector(2, 1, 2, MPI_INT, &type);
  MPI_Error_class(MPI_Send(&x, 1, type, MPI_PROC_NULL, 0, MPI_COMM_WORLD), &error_class);
  expect(error_class == MPI_ERR_TYPE, "an uncommitted type is not for sending");
  MPI_Error_class(MPI_Type_contiguous(-1, MPI_INT, &type), &error_class);
  expect(error_class == MPI_ERR_COUNT || error_class == MPI_ERR_ARG, "a negative count");
  MPI_Type_free(&type);
  int out = 0;
  MPI_Error_class(MPI_Allreduce(&x, &out, 1, MPI_INT, MPI_MINLOC, MPI_COMM_WORLD), &error_class);
  expect(error_class == MPI_ERR_OP, "MPI_MINLOC is not for numbers alone");
}

}  // namespace

int main(int argc, char** argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &g_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &g_size);
  columns();
  large_blocks();
  partial_records();
  packing();
  reductions();
  attributes();
  large_counts();
  errors();
  MPI_Finalize();
  return g_wrong == 0 ? 0 : 1;
}
