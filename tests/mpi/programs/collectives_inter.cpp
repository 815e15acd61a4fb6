// All collectives on an inter-communicator of even and odd ranks, in all forms.
#include "collectives_check.hpp"

namespace {

using namespace check;

int rank;    // in the own side
int ours;    // ranks of the own side
int theirs;  // of the other one
int side;    // 0: even ranks of the world
MPI_Comm comm;

/// The rank in the world of rank `r` of a side.
int world(int of_side, int r) { return 2 * r + of_side; }
/// Who a rank is to the world.
int me() { return world(side, rank); }

std::string at(const char* name, int count, Form form) {
  return std::string(name) + " between sides, of " + std::to_string(count) + ", form " +
         std::to_string(static_cast<int>(form));
}

/// MPI_ROOT, MPI_PROC_NULL, or the root's rank, for the root `r` of side `of_side`.
int root_as_seen(int of_side, int r) {
  if (side != of_side) return r;
  return rank == r ? MPI_ROOT : MPI_PROC_NULL;
}

void rooted(const Layout& layout, int count, Form form) {
  for (int root_side = 0; root_side < 2; ++root_side) {
    const int roots = root_side == side ? ours : theirs;
    const int others = root_side == side ? theirs : ours;
    for (int r = 0; r < roots; ++r) {
      const int root = root_as_seen(root_side, r);
      const int from = world(root_side, r);
      const bool takes_part = root != MPI_PROC_NULL;
      Image data(layout, count);
      Image all(layout, std::int64_t{count} * others);
      for (int i = 0; i < count && takes_part; ++i) {
        if (root == MPI_ROOT) {
          data.put(i, value(from, i));
        } else {
          data.expect(i, value(from, i));
        }
      }
      WEFT_CALL(form, 2, Bcast, Ibcast, data.data(), count, layout.type, root, comm);
      WEFT_EXPECT(data.right(), at("Bcast", count, form));

      Image mine(layout, count);
      for (int i = 0; i < count; ++i) mine.put(i, value(me(), i));
      if (root == MPI_ROOT) {
        for (int o = 0; o < others; ++o) {
          for (int i = 0; i < count; ++i) all.expect(o * count + i, value(world(1 - side, o), i));
        }
      }
      WEFT_CALL(form, 2, Gather, Igather, mine.data(), count, layout.type, all.data(), count,
                layout.type, root, comm);
      WEFT_EXPECT(all.right() && mine.right(), at("Gather", count, form));

      Image part(layout, count);
      Image parts(layout, std::int64_t{count} * others);
      if (root == MPI_ROOT) {
        for (int o = 0; o < others; ++o) {
          for (int i = 0; i < count; ++i) parts.put(o * count + i, value(me(), i, o));
        }
      } else if (takes_part) {
        for (int i = 0; i < count; ++i) part.expect(i, value(from, i, rank));
      }
      WEFT_CALL(form, 2, Scatter, Iscatter, parts.data(), count, layout.type, part.data(), count,
                layout.type, root, comm);
      WEFT_EXPECT(part.right() && parts.right(), at("Scatter", count, form));
    }
  }
}

void to_all(const Layout& layout, int count, Form form) {
  Image mine(layout, count);
  for (int i = 0; i < count; ++i) mine.put(i, value(me(), i));
  Image all(layout, std::int64_t{count} * theirs);
  Image each(layout, std::int64_t{count + 1} * theirs);
  std::vector<int> counts(static_cast<std::size_t>(theirs), count);
  std::vector<int> places(counts.size());
  for (int o = 0; o < theirs; ++o) {
    const int place = (theirs - 1 - o) * (count + 1);
    places[static_cast<std::size_t>(o)] = place;
    for (int i = 0; i < count; ++i) {
      all.expect(o * count + i, value(world(1 - side, o), i));
      each.expect(place + i, value(world(1 - side, o), i));
    }
  }
  WEFT_CALL(form, 2, Allgather, Iallgather, mine.data(), count, layout.type, all.data(), count,
            layout.type, comm);
  WEFT_EXPECT(all.right(), at("Allgather", count, form));
  WEFT_CALL(form, 2, Allgatherv, Iallgatherv, mine.data(), count, layout.type, each.data(),
            counts.data(), places.data(), layout.type, comm);
  WEFT_EXPECT(each.right(), at("Allgatherv", count, form));

  Image out(layout, std::int64_t{count} * theirs);
  Image in(layout, std::int64_t{count} * theirs);
  std::vector<int> straight(counts.size());
  for (int o = 0; o < theirs; ++o) {
    straight[static_cast<std::size_t>(o)] = o * count;
    for (int i = 0; i < count; ++i) {
      out.put(o * count + i, value(me(), i, o));
      in.expect(o * count + i, value(world(1 - side, o), i, rank));
    }
  }
  WEFT_CALL(form, 2, Alltoall, Ialltoall, out.data(), count, layout.type, in.data(), count,
            layout.type, comm);
  WEFT_EXPECT(in.right(), at("Alltoall", count, form));
  in.wipe();
  WEFT_CALL(form, 2, Alltoallv, Ialltoallv, out.data(), counts.data(), straight.data(), layout.type,
            in.data(), counts.data(), straight.data(), layout.type, comm);
  WEFT_EXPECT(in.right(), at("Alltoallv", count, form));
}

/// What a side's ranks combine to.
Affine combined(int of_side, std::int64_t i) {
  const int ranks = of_side == side ? ours : theirs;
  Affine result = affine(world(of_side, 0), i);
  for (int r = 1; r < ranks; ++r) result = after(result, affine(world(of_side, r), i));
  return result;
}

void reductions(int count, Form form, MPI_Datatype type, MPI_Op op) {
  // A vector that both sides can deal out evenly.
  const int total = count * ours * theirs;
  std::vector<Affine> from;
  for (int i = 0; i < total; ++i) from.push_back(affine(me(), i));
  std::vector<Affine> to(from.size() + 1, Affine{-1, -1});
  const auto is_right = [&](int first, int some) {
    bool right = to[static_cast<std::size_t>(some)] == Affine{-1, -1};
    for (int i = 0; i < some; ++i) {
      right = right && to[static_cast<std::size_t>(i)] == combined(1 - side, first + i);
    }
    to.assign(to.size(), Affine{-1, -1});
    return right;
  };
  WEFT_CALL(form, 2, Allreduce, Iallreduce, from.data(), to.data(), total, type, op, comm);
  WEFT_EXPECT(is_right(0, total), at("Allreduce", count, form));

  for (int root_side = 0; root_side < 2; ++root_side) {
    for (int r = 0; r < (root_side == side ? ours : theirs); ++r) {
      const int root = root_as_seen(root_side, r);
      WEFT_CALL(form, 2, Reduce, Ireduce, from.data(), to.data(), total, type, op, root, comm);
      WEFT_EXPECT(is_right(0, root == MPI_ROOT ? total : 0), at("Reduce", count, form));
    }
  }
  const int each = count * theirs;
  WEFT_CALL(form, 2, Reduce_scatter_block, Ireduce_scatter_block, from.data(), to.data(), each,
            type, op, comm);
  WEFT_EXPECT(is_right(rank * each, each), at("Reduce_scatter_block", count, form));
  std::vector<int> counts(static_cast<std::size_t>(ours), each);
  if (ours > 1 && each > 0) {
    --counts[0];
    ++counts[1];
  }
  int first = rank * each - (rank == 1 && each > 0 ? 1 : 0);
  if (ours == 1) first = 0;
  WEFT_CALL(form, 2, Reduce_scatter, Ireduce_scatter, from.data(), to.data(), counts.data(), type,
            op, comm);
  WEFT_EXPECT(is_right(first, counts[static_cast<std::size_t>(rank)]),
              at("Reduce_scatter", count, form));
}

/// Elements of two ints, `kApart` of them from each other: all of a vector overlaps itself, what a
/// rank gets does not.
constexpr int kApart = 2;
void add_apart(void* in, void* inout, int* count, MPI_Datatype*) {
  for (int i = 0; i < *count; ++i) {
    for (const int at : {i, i + kApart}) static_cast<int*>(inout)[at] += static_cast<int*>(in)[at];
  }
}
void overlapping(Form form) {
  MPI_Datatype gaps;
  MPI_Datatype type;
  MPI_Type_vector(2, 1, kApart, MPI_INT, &gaps);
  MPI_Type_create_resized(gaps, 0, sizeof(int), &type);
  MPI_Type_commit(&type);
  MPI_Op op;
  MPI_Op_create(add_apart, 1, &op);
  // Two elements for each rank of the smaller side.
  const int total = 2 * std::min(ours, theirs);
  std::vector<int> counts(static_cast<std::size_t>(ours), 0);
  for (int i = 0; i < total; ++i) ++counts[static_cast<std::size_t>(i % ours)];
  int before = 0;
  for (int r = 0; r < rank; ++r) before += counts[static_cast<std::size_t>(r)];
  std::vector<int> from;
  for (int i = 0; i < total + kApart; ++i) from.push_back(me() * 1000 + i);
  int of_ranks = 0;
  for (int r = 0; r < theirs; ++r) of_ranks += world(1 - side, r) * 1000;
  std::vector<int> to(from.size(), -1);
  std::vector<int> expected = to;
  const int mine = counts[static_cast<std::size_t>(rank)];
  for (int i = 0; i < mine; ++i) {
    for (const int at : {i, i + kApart})
      expected[static_cast<std::size_t>(at)] = of_ranks + theirs * (before + at);
  }
  WEFT_CALL(form, 2, Reduce_scatter, Ireduce_scatter, from.data(), to.data(), counts.data(), type,
            op, comm);
  WEFT_EXPECT(to == expected, at("Reduce_scatter of what overlaps", total, form));
  MPI_Op_free(&op);
  MPI_Type_free(&type);
  MPI_Type_free(&gaps);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int world_rank;
  int world_size;
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  side = world_rank % 2;
  if (world_size > 1) {
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, side, world_rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - side, 5, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ours);
    MPI_Comm_remote_size(comm, &theirs);
    std::vector<Layout> layouts = make_layouts();
    MPI_Datatype pair;
    MPI_Type_contiguous(2, MPI_INT64_T, &pair);
    MPI_Type_commit(&pair);
    MPI_Op op;
    MPI_Op_create(compose, 0, &op);
    for (const Form form : kForms) {
      WEFT_CALL(form, 3, Barrier, Ibarrier, comm);
      overlapping(form);
      for (const int count : {0, 1, 4, 500, 10000}) {
        for (const Layout& layout : layouts) {
          rooted(layout, count, form);
          to_all(layout, count, form);
        }
        reductions(count, form, pair, op);
      }
    }
    MPI_Op_free(&op);
    MPI_Type_free(&pair);
    free_layouts(layouts);
    MPI_Comm_free(&comm);
    MPI_Comm_free(&half);
  }
  return finish();
}
