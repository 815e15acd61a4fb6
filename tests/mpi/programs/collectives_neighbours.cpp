// Neighbourhood collectives on periodic and open grids and on distributed graphs, in all forms.
#include "collectives_check.hpp"

namespace {

using namespace check;

int size, rank;

/// Who gives block `in` of this rank, and which of its blocks that is.
struct Source {
  int rank;   ///< MPI_PROC_NULL: nobody
  int block;  ///< index among its targets
};
struct Shape {
  MPI_Comm comm;
  std::string name;
  std::vector<Source> in;
  int outs;
  std::vector<bool> out_exists;
};

Shape grid(int dimensions, bool periodic) {
  Shape shape{MPI_COMM_NULL, periodic ? "periodic grid" : "open grid", {}, 2 * dimensions, {}};
  std::vector<int> dims(static_cast<std::size_t>(dimensions), 0);
  const std::vector<int> periods(dims.size(), periodic ? 1 : 0);
  MPI_Dims_create(size, dimensions, dims.data());
  MPI_Cart_create(MPI_COMM_WORLD, dimensions, dims.data(), periods.data(), 0, &shape.comm);
  for (int d = 0; d < dimensions; ++d) {
    int before;
    int after_it;
    MPI_Cart_shift(shape.comm, d, 1, &before, &after_it);
    // What it sends towards +1 comes from -1.
    shape.in.push_back({before, 2 * d + 1});
    shape.in.push_back({after_it, 2 * d});
    shape.out_exists.push_back(before != MPI_PROC_NULL);
    shape.out_exists.push_back(after_it != MPI_PROC_NULL);
  }
  return shape;
}

/// Everybody points to its next rank twice, to itself, and to rank 0.
Shape graph() {
  Shape shape{MPI_COMM_NULL, "graph", {}, 4, {true, true, true, true}};
  const int next = (rank + 1) % size;
  const int before = (rank - 1 + size) % size;
  std::vector<int> sources{before, before, rank};
  shape.in = {{before, 0}, {before, 1}, {rank, 2}};
  if (rank == 0) {
    for (int r = 0; r < size; ++r) {
      sources.push_back(r);
      shape.in.push_back({r, 3});
    }
  }
  // Messages of a pair come in the order in which both list their edges: so they must agree.
  const int targets[] = {next, next, rank, 0};
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, static_cast<int>(sources.size()), sources.data(),
                                 MPI_UNWEIGHTED, 4, targets, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                 &shape.comm);
  return shape;
}

void all_of(const Shape& shape, const Layout& layout, int count, Form form) {
  const int ins = static_cast<int>(shape.in.size());
  const auto name = [&](const char* call) {
    return std::string(call) + " on a " + shape.name + " of " + std::to_string(count) + " " +
           layout.name + ", form " + std::to_string(static_cast<int>(form));
  };
  Image mine(layout, count);
  Image gathered(layout, std::int64_t{count} * ins);
  Image out(layout, std::int64_t{count} * shape.outs);
  Image in(layout, std::int64_t{count} * ins);
  for (int i = 0; i < count; ++i) {
    mine.put(i, value(rank, i));
    for (int o = 0; o < shape.outs; ++o) out.put(o * count + i, value(rank, i, o));
    for (int s = 0; s < ins; ++s) {
      const Source& source = shape.in[static_cast<std::size_t>(s)];
      if (source.rank == MPI_PROC_NULL) continue;
      gathered.expect(s * count + i, value(source.rank, i));
      in.expect(s * count + i, value(source.rank, i, source.block));
    }
  }
  std::vector<int> in_counts(shape.in.size(), count);
  std::vector<int> in_places;
  std::vector<MPI_Aint> in_bytes;
  for (int s = 0; s < ins; ++s) {
    in_places.push_back(s * count);
    in_bytes.push_back(static_cast<MPI_Aint>(s) * count * layout.extent);
  }
  std::vector<int> out_counts(static_cast<std::size_t>(shape.outs), count);
  std::vector<int> out_places;
  std::vector<MPI_Aint> out_bytes;
  for (int o = 0; o < shape.outs; ++o) {
    out_places.push_back(o * count);
    out_bytes.push_back(static_cast<MPI_Aint>(o) * count * layout.extent);
  }
  const std::vector<MPI_Datatype> in_types(shape.in.size(), layout.type);
  const std::vector<MPI_Datatype> out_types(out_counts.size(), layout.type);

  WEFT_CALL(form, 2, Neighbor_allgather, Ineighbor_allgather, mine.data(), count, layout.type,
            gathered.data(), count, layout.type, shape.comm);
  WEFT_EXPECT(gathered.right(), name("Neighbor_allgather"));
  gathered.wipe();
  WEFT_CALL(form, 2, Neighbor_allgatherv, Ineighbor_allgatherv, mine.data(), count, layout.type,
            gathered.data(), in_counts.data(), in_places.data(), layout.type, shape.comm);
  WEFT_EXPECT(gathered.right(), name("Neighbor_allgatherv"));
  WEFT_CALL(form, 2, Neighbor_alltoall, Ineighbor_alltoall, out.data(), count, layout.type,
            in.data(), count, layout.type, shape.comm);
  WEFT_EXPECT(in.right(), name("Neighbor_alltoall"));
  in.wipe();
  WEFT_CALL(form, 2, Neighbor_alltoallv, Ineighbor_alltoallv, out.data(), out_counts.data(),
            out_places.data(), layout.type, in.data(), in_counts.data(), in_places.data(),
            layout.type, shape.comm);
  WEFT_EXPECT(in.right(), name("Neighbor_alltoallv"));
  in.wipe();
  WEFT_CALL(form, 2, Neighbor_alltoallw, Ineighbor_alltoallw, out.data(), out_counts.data(),
            out_bytes.data(), out_types.data(), in.data(), in_counts.data(), in_bytes.data(),
            in_types.data(), shape.comm);
  WEFT_EXPECT(in.right(), name("Neighbor_alltoallw"));
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::vector<Layout> layouts = make_layouts();
  // With one or two ranks edges of different meaning join the same pair, in an order of their own
  // on either side: only grids say what that means.
  std::vector<Shape> shapes{grid(1, true), grid(1, false), grid(2, true), grid(2, false)};
  if (size > 2) shapes.push_back(graph());
  for (Shape& shape : shapes) {
    for (const Form form : kForms) {
      for (const Layout& layout : layouts) {
        for (const int count : {0, 1, 6, 4000}) all_of(shape, layout, count, form);
      }
    }
    MPI_Comm_free(&shape.comm);
  }
  free_layouts(layouts);
  return finish();
}
