// Reduce, Allreduce, Reduce_scatter(_block), Scan, Exscan on an intra-communicator, in all forms:
// sums, and a program's operation that does not commute, over plain and padded elements.
#include <cmath>
#include <limits>

#include "collectives_check.hpp"

namespace {

using namespace check;

int size, rank;

/// An affine map in an element of some extent.
struct Padded {
  Affine map;
  std::int64_t gap;
};
void compose_padded(void* in, void* inout, int* count, MPI_Datatype*) {
  const auto* lower = static_cast<const Padded*>(in);
  auto* mine = static_cast<Padded*>(inout);
  for (int i = 0; i < *count; ++i) mine[i].map = after(lower[i].map, mine[i].map);
}

/// What is reduced: a type, an operation, and how numbers get into elements.
struct Kind {
  std::string name;
  MPI_Datatype type;
  MPI_Op op;
  std::size_t extent;
  bool is_affine;
};

Affine one(const Kind& kind, int r, std::int64_t i) {
  return kind.is_affine ? affine(r, i) : Affine{value(r, i), 0};
}
Affine both(const Kind& kind, const Affine& lower, const Affine& higher) {
  return kind.is_affine ? after(lower, higher) : Affine{lower.a + higher.a, 0};
}
/// Of ranks 0 … last.
Affine all_up_to(const Kind& kind, int last, std::int64_t i) {
  Affine result = one(kind, 0, i);
  for (int r = 1; r <= last; ++r) result = both(kind, result, one(kind, r, i));
  return result;
}

class Vector {
 public:
  Vector(const Kind& kind, std::int64_t count)
      : kind_(kind), bytes_(static_cast<std::size_t>(count + 1) * kind.extent, 0x5a) {}
  [[nodiscard]] void* data() noexcept { return bytes_.data(); }
  void put(std::int64_t i, const Affine& map) {
    std::memcpy(place(i), &map, kind_.is_affine ? sizeof map : sizeof map.a);
  }
  [[nodiscard]] bool is(std::int64_t i, const Affine& map) {
    if (std::memcmp(place(i), &map, kind_.is_affine ? sizeof map : sizeof map.a) != 0) return false;
    return !has_gap() || untouched(place(i) + sizeof map, 8);
  }
  /// The room after the last element, or an element that nobody wrote.
  [[nodiscard]] bool untouched(std::int64_t i) { return untouched(place(i), kind_.extent); }
  void fill(int r, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) put(i, one(kind_, r, i));
  }

 private:
  [[nodiscard]] bool has_gap() const { return kind_.extent == sizeof(Padded); }
  [[nodiscard]] unsigned char* place(std::int64_t i) {
    return bytes_.data() + static_cast<std::size_t>(i) * kind_.extent;
  }
  static bool untouched(const unsigned char* from, std::size_t bytes) {
    for (std::size_t b = 0; b < bytes; ++b) {
      if (from[b] != 0x5a) return false;
    }
    return true;
  }
  const Kind& kind_;
  std::vector<unsigned char> bytes_;
};

struct Case {
  const Kind& kind;
  int count;
  Form form;
  bool in_place;
  [[nodiscard]] std::string in(const char* name) const {
    return std::string(name) + " of " + std::to_string(count) + " " + kind.name + ", form " +
           std::to_string(static_cast<int>(form)) + (in_place ? ", in place" : "");
  }
  [[nodiscard]] int rounds() const { return in_place ? 1 : 2; }
};

void reduce(const Case& c) {
  for (int root = 0; root < size; ++root) {
    Vector from(c.kind, c.count);
    Vector to(c.kind, c.count);
    from.fill(rank, c.count);
    const bool here = c.in_place && rank == root;
    if (here) to.fill(rank, c.count);
    WEFT_CALL(c.form, c.rounds(), Reduce, Ireduce, here ? MPI_IN_PLACE : from.data(),
              rank == root ? to.data() : nullptr, c.count, c.kind.type, c.kind.op, root,
              MPI_COMM_WORLD);
    bool right = to.untouched(c.count);
    for (int i = 0; rank == root && i < c.count; ++i) {
      right = right && to.is(i, all_up_to(c.kind, size - 1, i));
    }
    WEFT_EXPECT(right, c.in("Reduce") + ", root " + std::to_string(root));
  }
}

void allreduce(const Case& c) {
  Vector from(c.kind, c.count);
  Vector to(c.kind, c.count);
  from.fill(rank, c.count);
  if (c.in_place) to.fill(rank, c.count);
  WEFT_CALL(c.form, c.rounds(), Allreduce, Iallreduce, c.in_place ? MPI_IN_PLACE : from.data(),
            to.data(), c.count, c.kind.type, c.kind.op, MPI_COMM_WORLD);
  bool right = to.untouched(c.count);
  for (int i = 0; i < c.count; ++i) right = right && to.is(i, all_up_to(c.kind, size - 1, i));
  WEFT_EXPECT(right, c.in("Allreduce"));
}

void reduce_scatter_block(const Case& c) {
  const std::int64_t total = std::int64_t{c.count} * size;
  Vector from(c.kind, total);
  Vector to(c.kind, c.in_place ? total : c.count);
  from.fill(rank, total);
  if (c.in_place) to.fill(rank, total);
  WEFT_CALL(c.form, c.rounds(), Reduce_scatter_block, Ireduce_scatter_block,
            c.in_place ? MPI_IN_PLACE : from.data(), to.data(), c.count, c.kind.type, c.kind.op,
            MPI_COMM_WORLD);
  bool right = c.in_place || to.untouched(c.count);
  for (int i = 0; i < c.count; ++i) {
    right = right && to.is(i, all_up_to(c.kind, size - 1, std::int64_t{rank} * c.count + i));
  }
  WEFT_EXPECT(right, c.in("Reduce_scatter_block"));
}

void reduce_scatter(const Case& c) {
  std::vector<int> counts;
  std::int64_t before = 0;
  std::int64_t total = 0;
  for (int r = 0; r < size; ++r) {
    if (r == rank) before = total;
    counts.push_back(r == 1 ? 0 : c.count + r);
    total += counts.back();
  }
  const int mine = counts[static_cast<std::size_t>(rank)];
  Vector from(c.kind, total);
  Vector to(c.kind, c.in_place ? total : mine);
  from.fill(rank, total);
  if (c.in_place) to.fill(rank, total);
  WEFT_CALL(c.form, c.rounds(), Reduce_scatter, Ireduce_scatter,
            c.in_place ? MPI_IN_PLACE : from.data(), to.data(), counts.data(), c.kind.type,
            c.kind.op, MPI_COMM_WORLD);
  bool right = c.in_place || to.untouched(mine);
  for (int i = 0; i < mine; ++i) {
    right = right && to.is(i, all_up_to(c.kind, size - 1, before + i));
  }
  WEFT_EXPECT(right, c.in("Reduce_scatter"));
}

void scans(const Case& c) {
  for (const bool exclusive : {false, true}) {
    Vector from(c.kind, c.count);
    Vector to(c.kind, c.count);
    from.fill(rank, c.count);
    if (c.in_place) to.fill(rank, c.count);
    const void* given = c.in_place ? MPI_IN_PLACE : from.data();
    if (exclusive) {
      WEFT_CALL(c.form, c.rounds(), Exscan, Iexscan, given, to.data(), c.count, c.kind.type,
                c.kind.op, MPI_COMM_WORLD);
    } else {
      WEFT_CALL(c.form, c.rounds(), Scan, Iscan, given, to.data(), c.count, c.kind.type, c.kind.op,
                MPI_COMM_WORLD);
    }
    bool right = to.untouched(c.count);
    for (int i = 0; i < c.count; ++i) {
      if (!exclusive || rank != 0) {
        right = right && to.is(i, all_up_to(c.kind, exclusive ? rank - 1 : rank, i));
      } else if (!c.in_place) {
        right = right && to.untouched(i);
      }
    }
    WEFT_EXPECT(right, c.in(exclusive ? "Exscan" : "Scan"));
  }
}

/// A program's function counts elements in a wide number, too.
void compose_many(void* in, void* inout, MPI_Count* count, MPI_Datatype*) {
  const auto* lower = static_cast<const Affine*>(in);
  auto* mine = static_cast<Affine*>(inout);
  for (MPI_Count i = 0; i < *count; ++i) mine[i] = after(lower[i], mine[i]);
}

std::vector<Kind> make_kinds() {
  MPI_Datatype pair;
  MPI_Type_contiguous(2, MPI_INT64_T, &pair);
  MPI_Type_commit(&pair);
  MPI_Datatype padded;
  MPI_Type_create_resized(pair, 0, sizeof(Padded), &padded);
  MPI_Type_commit(&padded);
  MPI_Op plain;
  MPI_Op with_gap;
  MPI_Op wide;
  MPI_Op_create(compose, 0, &plain);
  MPI_Op_create(compose_padded, 0, &with_gap);
  MPI_Op_create_c(compose_many, 0, &wide);
  return {{"sums", MPI_INT64_T, MPI_SUM, 8, false},
          {"maps", pair, plain, sizeof(Affine), true},
          {"padded maps", padded, with_gap, sizeof(Padded), true},
          {"maps by a wide function", pair, wide, sizeof(Affine), true}};
}

/// A NaN of one rank is everybody's extreme, in whatever order they combine.
void nans(int from, int count) {
  struct Located {
    double value;
    int index;
  };
  const auto given = [&](int i) {
    return rank == from && i % 2 == 0 ? std::numeric_limits<double>::quiet_NaN() : 1.0 + rank;
  };
  std::vector<double> values(count), extremes(count);
  std::vector<Located> located(count), found(count);
  for (int i = 0; i < count; ++i) {
    values[i] = given(i);
    located[i] = {given(i), rank};
  }
  for (const bool max : {false, true}) {
    const int winner = max ? size - 1 : 0;
    MPI_Allreduce(values.data(), extremes.data(), count, MPI_DOUBLE, max ? MPI_MAX : MPI_MIN,
                  MPI_COMM_WORLD);
    MPI_Request request;
    MPI_Iallreduce(located.data(), found.data(), count, MPI_DOUBLE_INT,
                   max ? MPI_MAXLOC : MPI_MINLOC, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < count; ++i) {
      const bool nan = i % 2 == 0;
      WEFT_EXPECT(nan ? std::isnan(extremes[i]) : extremes[i] == 1.0 + winner, "extreme");
      WEFT_EXPECT(nan ? std::isnan(found[i].value) : found[i].value == 1.0 + winner, "located");
      WEFT_EXPECT(found[i].index == (nan ? from : winner), "index");
    }
  }
}

/// Where the double of an element below lies, and how far elements are apart.
std::size_t double_at = 0;
std::size_t extent = 0;
int misaligned = 0;
void add_doubles(void* in, void* inout, int* count, MPI_Datatype*) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(*count); ++i) {
    const char* lower = static_cast<char*>(in) + i * extent + double_at;
    char* mine = static_cast<char*>(inout) + i * extent + double_at;
    for (const char* each : {lower, static_cast<const char*>(mine)}) {
      if (reinterpret_cast<std::uintptr_t>(each) % alignof(double) != 0) ++misaligned;
    }
    double a = 0;
    double b = 0;
    std::memcpy(&a, lower, sizeof a);
    std::memcpy(&b, mine, sizeof b);
    b += a;
    std::memcpy(mine, &b, sizeof b);
  }
}

/// A program's function finds all vectors aligned as its own are: an int and a double that do not
/// begin where the element does, or a double alone in vectors that begin 4 bytes before.
void alignment(Form form, int count, bool with_int) {
  const int lengths[] = {1, 1};
  const MPI_Aint places[] = {with_int ? 8 : 4, 4};
  const MPI_Datatype types[] = {MPI_DOUBLE, MPI_INT};
  MPI_Datatype fields;
  MPI_Datatype type;
  MPI_Type_create_struct(with_int ? 2 : 1, lengths, places, types, &fields);
  double_at = with_int ? 8 : 4;
  extent = with_int ? 16 : 8;
  MPI_Type_create_resized(fields, 0, static_cast<MPI_Aint>(extent), &type);
  MPI_Type_commit(&type);
  MPI_Op op;
  MPI_Op_create(add_doubles, 1, &op);
  const std::size_t vectors = static_cast<std::size_t>(count) * static_cast<std::size_t>(size);
  std::vector<double> from(vectors * 2 + 2, 1.0);
  std::vector<double> to(vectors * 2 + 2, 0.0);
  void* given = reinterpret_cast<char*>(from.data()) + (with_int ? 0 : 4);
  void* got = reinterpret_cast<char*>(to.data()) + (with_int ? 0 : 4);
  misaligned = 0;
  for (int root = 0; root < size; ++root) {
    WEFT_CALL(form, 1, Reduce, Ireduce, given, got, count, type, op, root, MPI_COMM_WORLD);
  }
  WEFT_CALL(form, 1, Allreduce, Iallreduce, given, got, count, type, op, MPI_COMM_WORLD);
  WEFT_CALL(form, 1, Allreduce, Iallreduce, MPI_IN_PLACE, got, count, type, op, MPI_COMM_WORLD);
  WEFT_EXPECT(to[1] == 1.0 * size * size || !with_int, "sums of aligned doubles");
  WEFT_CALL(form, 1, Reduce_scatter_block, Ireduce_scatter_block, given, got, count, type, op,
            MPI_COMM_WORLD);
  WEFT_CALL(form, 1, Scan, Iscan, given, got, count, type, op, MPI_COMM_WORLD);
  WEFT_CALL(form, 1, Exscan, Iexscan, given, got, count, type, op, MPI_COMM_WORLD);
  WEFT_EXPECT(misaligned == 0, std::to_string(misaligned) + " misaligned doubles, of vectors of " +
                                   std::to_string(count) + (with_int ? ", with ints" : ""));
  MPI_Op_free(&op);
  MPI_Type_free(&type);
  MPI_Type_free(&fields);
}

MPI_Datatype handle_given = MPI_DATATYPE_NULL;
int given_size = 0;
void add_and_note(void* in, void* inout, int* count, MPI_Datatype* type) {
  handle_given = *type;
  MPI_Type_size(*type, &given_size);
  for (int i = 0; i < 2 * *count; ++i)
    static_cast<std::int64_t*>(inout)[i] += static_cast<std::int64_t*>(in)[i];
}

/// A program's function is given the program's handle, if that is still one.
void handles(Form form) {
  MPI_Datatype pair;
  MPI_Type_contiguous(2, MPI_INT64_T, &pair);
  MPI_Type_commit(&pair);
  const MPI_Datatype given = pair;
  MPI_Op op;
  MPI_Op_create(add_and_note, 1, &op);
  const std::int64_t from[2] = {rank, 1};
  std::int64_t to[2] = {};
  handle_given = MPI_DATATYPE_NULL;
  WEFT_CALL(form, 2, Allreduce, Iallreduce, from, to, 1, pair, op, MPI_COMM_WORLD);
  WEFT_EXPECT(to[1] == size, "Allreduce of pairs");
  // Some combine, and the others are given what these come to.
  WEFT_EXPECT(handle_given == given || handle_given == MPI_DATATYPE_NULL, "the program's handle");
  const int is_noted = handle_given == given ? 1 : 0;
  int noted = 0;
  MPI_Allreduce(&is_noted, &noted, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  WEFT_EXPECT(noted > 0 || size == 1, "the program's handle at anybody");
  MPI_Request request;
  given_size = 0;
  MPI_Allreduce_init(from, to, 1, pair, op, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  MPI_Type_free(&pair);
  MPI_Start(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Request_free(&request);
  WEFT_EXPECT(to[1] == size, "Allreduce of pairs whose type was freed");
  WEFT_EXPECT(given_size == 0 || (given_size == 16 && handle_given != given),
              "another handle of a type that was freed");
  MPI_Op_free(&op);
}

/// All ranks have the same bits, where some give +0 and others -0.
template <class Number>
void zeros(MPI_Datatype type, Form form, int count) {
  const auto length = static_cast<std::size_t>(count);
  for (const bool max : {false, true}) {
    for (const bool in_place : {false, true}) {
      std::vector<Number> from(length);
      for (std::size_t i = 0; i < length; ++i) {
        const bool minus = (static_cast<std::size_t>(rank) + i) % 2 == 0;
        from[i] = std::copysign(Number{0}, minus ? Number{-1} : Number{1});
      }
      std::vector<Number> to = from;
      WEFT_CALL(form, 1, Allreduce, Iallreduce, in_place ? MPI_IN_PLACE : from.data(), to.data(),
                count, type, max ? MPI_MAX : MPI_MIN, MPI_COMM_WORLD);
      std::vector<Number> of_first = to;
      MPI_Bcast(of_first.data(), count, type, 0, MPI_COMM_WORLD);
      WEFT_EXPECT(std::memcmp(of_first.data(), to.data(), length * sizeof(Number)) == 0,
                  "zeros of unlike signs, of " + std::to_string(count));
    }
  }
}

__extension__ typedef __int128 Int128;  // NOLINT(modernize-use-using): only so

/// The largest value and who has it, in pairs of the widest numbers.
template <class Value, class Index>
void widest(MPI_Datatype value_type, MPI_Datatype index_type, Form form) {
  struct Pair {
    Value value;
    Index index;
  };
  MPI_Datatype pair = MPI_DATATYPE_NULL;
  MPI_Type_get_value_index(value_type, index_type, &pair);
  WEFT_EXPECT(pair != MPI_DATATYPE_NULL, "a pair of wide numbers");
  if (pair == MPI_DATATYPE_NULL) return;
  Pair mine[2] = {};
  mine[0].value = static_cast<Value>(rank % 2);
  mine[1].value = static_cast<Value>(-rank);
  mine[0].index = mine[1].index = static_cast<Index>(rank);
  Pair all[2] = {};
  WEFT_CALL(form, 2, Allreduce, Iallreduce, mine, all, 2, pair, MPI_MAXLOC, MPI_COMM_WORLD);
  const int first = size > 1 ? 1 : 0;
  WEFT_EXPECT(all[0].value == first && all[0].index == first, "the first of the largest");
  WEFT_EXPECT(all[1].value == 0 && all[1].index == 0, "the largest");
}

/// Of the columns' numbers below, so many ints apart.
int height = 0;
void add_columns(void* in, void* inout, int* count, MPI_Datatype*) {
  for (int i = 0; i < *count; ++i) {
    for (const int row : {0, height})
      static_cast<int*>(inout)[i + row] += static_cast<int*>(in)[i + row];
  }
}
void keep_lower_columns(void* in, void* inout, int* count, MPI_Datatype*) {
  for (int i = 0; i < *count; ++i) {
    for (const int row : {0, height})
      static_cast<int*>(inout)[i + row] = static_cast<int*>(in)[i + row];
  }
}

/// Elements that are columns of two rows, `apart` ints one from the other: those of other ranks lie
/// between a rank's own, or overlap them.
void columns(Form form, const std::vector<int>& counts, int apart, bool commutes) {
  MPI_Datatype pair;
  MPI_Datatype column;
  MPI_Type_vector(2, 1, apart, MPI_INT, &pair);
  MPI_Type_create_resized(pair, 0, sizeof(int), &column);
  MPI_Type_commit(&column);
  MPI_Op op;
  MPI_Op_create(commutes ? add_columns : keep_lower_columns, commutes ? 1 : 0, &op);
  height = apart;
  int total = 0;
  int before = 0;
  for (int r = 0; r < size; ++r) {
    if (r == rank) before = total;
    total += counts[static_cast<std::size_t>(r)];
  }
  const int mine = counts[static_cast<std::size_t>(rank)];
  std::vector<int> from;
  for (int i = 0; i < total + apart; ++i) from.push_back((rank + 1) * 1000 + i);
  std::vector<int> expected(from.size(), -1);
  for (int i = 0; i < mine; ++i) {
    for (const int row : {0, apart}) {
      const int at = before + i + row;
      expected[static_cast<std::size_t>(i + row)] =
          commutes ? size * (size + 1) / 2 * 1000 + size * at : 1000 + at;
    }
  }
  std::vector<int> to(from.size(), -1);
  WEFT_CALL(form, 2, Reduce_scatter, Ireduce_scatter, from.data(), to.data(), counts.data(), column,
            op, MPI_COMM_WORLD);
  WEFT_EXPECT(to == expected, "Reduce_scatter of columns");
  if (counts.front() == counts.back()) {
    to.assign(to.size(), -1);
    WEFT_CALL(form, 2, Reduce_scatter_block, Ireduce_scatter_block, from.data(), to.data(), mine,
              column, op, MPI_COMM_WORLD);
    WEFT_EXPECT(to == expected, "Reduce_scatter_block of columns");
  }
  MPI_Op_free(&op);
  MPI_Type_free(&column);
  MPI_Type_free(&pair);
}

/// An int at its address in memory: its buffer is MPI_BOTTOM.
MPI_Aint place_of_int = 0;
void add_placed(void* in, void* inout, int* count, MPI_Datatype*) {
  for (int i = 0; i < *count; ++i) {
    // The type's extent is an int's.
    const MPI_Aint at = place_of_int + i * static_cast<MPI_Aint>(sizeof(int));
    const auto* lower = reinterpret_cast<const int*>(reinterpret_cast<MPI_Aint>(in) +
                                                     at);  // NOLINT: from its address
    auto* mine = reinterpret_cast<int*>(reinterpret_cast<MPI_Aint>(inout) + at);  // NOLINT
    *mine += *lower;
  }
}

/// Vectors at MPI_BOTTOM, in place: no address is none.
void at_bottom(Form form, bool commutes) {
  int number = 0;
  const int one_int = 1;
  MPI_Get_address(&number, &place_of_int);
  const MPI_Datatype ints = MPI_INT;
  MPI_Datatype placed;
  MPI_Type_create_struct(1, &one_int, &place_of_int, &ints, &placed);
  MPI_Type_commit(&placed);
  MPI_Op op;
  MPI_Op_create(add_placed, commutes ? 1 : 0, &op);
  const int sum = size * (size + 1) / 2;
  for (int root = 0; root < size; ++root) {
    number = rank + 1;
    WEFT_CALL(form, 1, Reduce, Ireduce, rank == root ? MPI_IN_PLACE : MPI_BOTTOM, MPI_BOTTOM, 1,
              placed, op, root, MPI_COMM_WORLD);
    WEFT_EXPECT(number == (rank == root ? sum : rank + 1), "Reduce at MPI_BOTTOM");
  }
  number = rank + 1;
  WEFT_CALL(form, 1, Allreduce, Iallreduce, MPI_IN_PLACE, MPI_BOTTOM, 1, placed, op,
            MPI_COMM_WORLD);
  WEFT_EXPECT(number == sum, "Allreduce at MPI_BOTTOM");
  MPI_Op_free(&op);
  MPI_Type_free(&placed);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (const Kind& kind : make_kinds()) {
    for (const Form form : kForms) {
      for (const int count : {0, 1, 3, 700, 9001}) {
        for (const bool in_place : {false, true}) {
          const Case c{kind, count, form, in_place};
          reduce(c);
          allreduce(c);
          reduce_scatter_block(c);
          reduce_scatter(c);
          scans(c);
        }
      }
    }
  }
  // Around what goes eagerly, and what is combined as it comes: 256 KiB.
  const Kind sums = make_kinds().front();
  for (const int count : {8'192, 8'193, 20'001, 32'768, 32'769, 100'003}) {
    for (const bool in_place : {false, true}) {
      const Case c{sums, count, kForms[0], in_place};
      reduce(c);
      allreduce(c);
      reduce_scatter_block(c);
    }
  }
  for (const Form form : kForms) {
    handles(form);
    for (const bool commutes : {false, true}) at_bottom(form, commutes);
    for (const int count : {1, 3, 700, 9001}) {
      for (const bool with_int : {false, true}) alignment(form, count, with_int);
    }
    widest<Int128, int>(MPI_INTEGER16, MPI_INT, form);
    widest<int, Int128>(MPI_INT, MPI_INTEGER16, form);
#if defined(__SIZEOF_FLOAT128__)
    widest<__float128, int>(MPI_REAL16, MPI_INT, form);
#endif
    for (const int count : {1, 3, 40, 9001}) {
      zeros<float>(MPI_FLOAT, form, count);
      zeros<double>(MPI_DOUBLE, form, count);
    }
    for (const bool commutes : {false, true}) {
      std::vector<int> counts(static_cast<std::size_t>(size), 1);
      counts[0] = 3;
      columns(form, counts, size + 2, commutes);
      columns(form, std::vector<int>(static_cast<std::size_t>(size), 2), 2, commutes);
    }
  }
  for (int from = 0; from < size; ++from) {
    for (const int count : {1, 40, 9001}) nans(from, count);
  }
  return finish();
}
