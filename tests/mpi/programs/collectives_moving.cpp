// Barrier, Bcast, Gather(v), Scatter(v), Allgather(v), Alltoall(v,w) on an intra-communicator, in
// all forms, layouts and sizes.
#include "collectives_check.hpp"

namespace {

using namespace check;

int size, rank;

std::string at(const char* name, const Layout& layout, int count, Form form) {
  return std::string(name) + " of " + std::to_string(count) + " " + layout.name + ", form " +
         std::to_string(static_cast<int>(form));
}

void bcast(const Layout& layout, int count, Form form, MPI_Comm comm) {
  for (int root = 0; root<size; root += size> 2 ? 2 : 1) {
    Image data(layout, count);
    for (int i = 0; i < count; ++i) {
      if (rank == root) {
        data.put(i, value(root, i));
      } else {
        data.expect(i, value(root, i));
      }
    }
    WEFT_CALL(form, 2, Bcast, Ibcast, data.data(), count, layout.type, root, comm);
    WEFT_EXPECT(data.right(), at("Bcast", layout, count, form));
  }
}

/// The root gives elements of the layout; the others get the same numbers as plain ones.
void bcast_mixed(const Layout& layout, int count, Form form, MPI_Comm comm) {
  const auto fields = static_cast<int>(layout.fields.size());
  Image data(layout, count);
  for (int i = 0; i < count; ++i) data.put(i, value(0, i));
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(count * fields) + 1, -1);
  void* buffer = rank == 0 ? data.data() : numbers.data();
  WEFT_CALL(form, 2, Bcast, Ibcast, buffer, rank == 0 ? count : count * fields,
            rank == 0 ? layout.type : MPI_INT64_T, 0, comm);
  bool right = true;
  for (int i = 0; rank != 0 && i < count * fields; ++i) {
    right = right && numbers[static_cast<std::size_t>(i)] == value(0, i / fields) * 10 + i % fields;
  }
  WEFT_EXPECT(right && numbers.back() == -1, at("Bcast of unlike types", layout, count, form));
}

void gather(const Layout& layout, int count, Form form, bool in_place, MPI_Comm comm) {
  for (int root = 0; root < size; ++root) {
    Image mine(layout, count);
    Image all(layout, rank == root ? std::int64_t{count} * size : 0);
    for (int i = 0; i < count; ++i) mine.put(i, value(rank, i));
    if (rank == root) {
      for (int r = 0; r < size; ++r) {
        for (int i = 0; i < count; ++i) all.expect(r * count + i, value(r, i));
      }
      for (int i = 0; in_place && i < count; ++i) all.put(rank * count + i, value(rank, i));
    }
    const bool here = in_place && rank == root;
    WEFT_CALL(form, 2, Gather, Igather, here ? MPI_IN_PLACE : mine.data(), count, layout.type,
              all.data(), count, layout.type, root, comm);
    WEFT_EXPECT(all.right() && mine.right(), at("Gather", layout, count, form));
  }
}

/// Rank r has r + count % 3 more elements, and the blocks lie in reverse order with gaps.
struct Uneven {
  Uneven(int count, int blocks) {
    int place = 0;
    counts.resize(static_cast<std::size_t>(blocks));
    places.resize(static_cast<std::size_t>(blocks));
    for (int r = blocks - 1; r >= 0; --r) {
      counts[static_cast<std::size_t>(r)] = count == 0 && r % 2 == 0 ? 0 : count + r;
      places[static_cast<std::size_t>(r)] = place;
      place += counts[static_cast<std::size_t>(r)] + 1;
    }
    total = place;
  }
  std::vector<int> counts;
  std::vector<int> places;
  int total;
};

void gatherv(const Layout& layout, int count, Form form, bool in_place, MPI_Comm comm) {
  const Uneven parts(count, size);
  const int mine_count = parts.counts[static_cast<std::size_t>(rank)];
  for (int root = 0; root < size; ++root) {
    Image mine(layout, mine_count);
    Image all(layout, rank == root ? parts.total : 0);
    for (int i = 0; i < mine_count; ++i) mine.put(i, value(rank, i));
    for (int r = 0; rank == root && r < size; ++r) {
      const auto p = static_cast<std::size_t>(r);
      for (int i = 0; i < parts.counts[p]; ++i) {
        if (in_place && r == rank) {
          all.put(parts.places[p] + i, value(r, i));
        } else {
          all.expect(parts.places[p] + i, value(r, i));
        }
      }
    }
    const bool here = in_place && rank == root;
    WEFT_CALL(form, 2, Gatherv, Igatherv, here ? MPI_IN_PLACE : mine.data(), mine_count,
              layout.type, all.data(), parts.counts.data(), parts.places.data(), layout.type, root,
              comm);
    WEFT_EXPECT(all.right() && mine.right(), at("Gatherv", layout, count, form));
  }
}

void scatter(const Layout& layout, int count, Form form, bool in_place, MPI_Comm comm) {
  for (int root = 0; root < size; ++root) {
    Image mine(layout, count);
    Image all(layout, rank == root ? std::int64_t{count} * size : 0);
    const bool here = in_place && rank == root;
    for (int i = 0; i < count && !here; ++i) mine.expect(i, value(root, i, rank));
    for (int r = 0; rank == root && r < size; ++r) {
      for (int i = 0; i < count; ++i) all.put(r * count + i, value(root, i, r));
    }
    WEFT_CALL(form, 2, Scatter, Iscatter, all.data(), count, layout.type,
              here ? MPI_IN_PLACE : mine.data(), count, layout.type, root, comm);
    WEFT_EXPECT(all.right() && mine.right(), at("Scatter", layout, count, form));
  }
}

void scatterv(const Layout& layout, int count, Form form, bool in_place, MPI_Comm comm) {
  const Uneven parts(count, size);
  const int mine_count = parts.counts[static_cast<std::size_t>(rank)];
  for (int root = 0; root < size; ++root) {
    Image mine(layout, mine_count);
    Image all(layout, rank == root ? parts.total : 0);
    const bool here = in_place && rank == root;
    for (int i = 0; i < mine_count && !here; ++i) mine.expect(i, value(root, i, rank));
    for (int r = 0; rank == root && r < size; ++r) {
      const auto p = static_cast<std::size_t>(r);
      for (int i = 0; i < parts.counts[p]; ++i) all.put(parts.places[p] + i, value(root, i, r));
    }
    WEFT_CALL(form, 2, Scatterv, Iscatterv, all.data(), parts.counts.data(), parts.places.data(),
              layout.type, here ? MPI_IN_PLACE : mine.data(), mine_count, layout.type, root, comm);
    WEFT_EXPECT(all.right() && mine.right(), at("Scatterv", layout, count, form));
  }
}

void allgather(const Layout& layout, int count, Form form, bool in_place, MPI_Comm comm) {
  Image mine(layout, count);
  Image all(layout, std::int64_t{count} * size);
  for (int i = 0; i < count; ++i) mine.put(i, value(rank, i));
  for (int r = 0; r < size; ++r) {
    for (int i = 0; i < count; ++i) all.expect(r * count + i, value(r, i));
  }
  for (int i = 0; in_place && i < count; ++i) all.put(rank * count + i, value(rank, i));
  WEFT_CALL(form, 2, Allgather, Iallgather, in_place ? MPI_IN_PLACE : mine.data(), count,
            layout.type, all.data(), count, layout.type, comm);
  WEFT_EXPECT(all.right() && mine.right(), at("Allgather", layout, count, form));

  const Uneven parts(count, size);
  const int mine_count = parts.counts[static_cast<std::size_t>(rank)];
  Image own(layout, mine_count);
  Image each(layout, parts.total);
  for (int i = 0; i < mine_count; ++i) own.put(i, value(rank, i));
  for (int r = 0; r < size; ++r) {
    const auto p = static_cast<std::size_t>(r);
    for (int i = 0; i < parts.counts[p]; ++i) {
      if (in_place && r == rank) {
        each.put(parts.places[p] + i, value(r, i));
      } else {
        each.expect(parts.places[p] + i, value(r, i));
      }
    }
  }
  WEFT_CALL(form, 2, Allgatherv, Iallgatherv, in_place ? MPI_IN_PLACE : own.data(), mine_count,
            layout.type, each.data(), parts.counts.data(), parts.places.data(), layout.type, comm);
  WEFT_EXPECT(each.right() && own.right(), at("Allgatherv", layout, count, form));
}

/// One block of many segments, among others of one, of few elements, and of none.
void allgatherv_unlike(const Layout& layout, Form form, MPI_Comm comm) {
  std::vector<int> counts, places;
  int total = 0;
  for (int r = 0; r < size; ++r) {
    counts.push_back(r == 1 ? 170'000 : r % 3 == 0 ? 0 : r * 7);
    places.push_back(total);
    total += counts.back();
  }
  Image own(layout, counts[static_cast<std::size_t>(rank)]);
  Image each(layout, total);
  for (int r = 0; r < size; ++r) {
    const auto p = static_cast<std::size_t>(r);
    for (int i = 0; i < counts[p]; ++i) {
      if (r == rank) own.put(i, value(r, i));
      each.expect(places[p] + i, value(r, i));
    }
  }
  WEFT_CALL(form, 2, Allgatherv, Iallgatherv, own.data(), counts[static_cast<std::size_t>(rank)],
            layout.type, each.data(), counts.data(), places.data(), layout.type, comm);
  WEFT_EXPECT(each.right() && own.right(), at("Allgatherv of unlike blocks", layout, 0, form));
}

void alltoall(const Layout& layout, int count, Form form, bool in_place, MPI_Comm comm) {
  Image out(layout, std::int64_t{count} * size);
  Image in(layout, std::int64_t{count} * size);
  for (int r = 0; r < size; ++r) {
    for (int i = 0; i < count; ++i) {
      out.put(r * count + i, value(rank, i, r));
      if (in_place) in.put(r * count + i, value(rank, i, r));
      in.expect(r * count + i, value(r, i, rank));
    }
  }
  WEFT_CALL(form, in_place ? 1 : 2, Alltoall, Ialltoall, in_place ? MPI_IN_PLACE : out.data(),
            count, layout.type, in.data(), count, layout.type, comm);
  WEFT_EXPECT(out.right() && in.right(), at("Alltoall", layout, count, form));
}

/// Rank r and rank s exchange count + r + s elements.
void alltoallv(const Layout& layout, int count, Form form, bool in_place, bool w, MPI_Comm comm) {
  std::vector<int> counts(static_cast<std::size_t>(size));
  std::vector<int> places(counts.size());
  std::vector<int> bytes(counts.size());
  const std::vector<MPI_Datatype> types(counts.size(), layout.type);
  int total = 1;
  for (int r = 0; r < size; ++r) {
    const auto p = static_cast<std::size_t>(r);
    counts[p] = count == 0 && (r + rank) % 2 == 0 ? 0 : count + r + rank;
    places[p] = total;
    bytes[p] = total * static_cast<int>(layout.extent);
    total += counts[p] + 1;
  }
  Image out(layout, total);
  Image in(layout, total);
  for (int r = 0; r < size; ++r) {
    const auto p = static_cast<std::size_t>(r);
    for (int i = 0; i < counts[p]; ++i) {
      out.put(places[p] + i, value(rank, i, r));
      if (in_place) in.put(places[p] + i, value(rank, i, r));
      in.expect(places[p] + i, value(r, i, rank));
    }
  }
  const int rounds = in_place ? 1 : 2;
  const void* from = in_place ? MPI_IN_PLACE : out.data();
  if (w) {
    WEFT_CALL(form, rounds, Alltoallw, Ialltoallw, from, counts.data(), bytes.data(), types.data(),
              in.data(), counts.data(), bytes.data(), types.data(), comm);
  } else {
    WEFT_CALL(form, rounds, Alltoallv, Ialltoallv, from, counts.data(), places.data(), layout.type,
              in.data(), counts.data(), places.data(), layout.type, comm);
  }
  WEFT_EXPECT(out.right() && in.right(), at(w ? "Alltoallw" : "Alltoallv", layout, count, form));
}

}  // namespace

/// What even ranks have in a layout, odd ones have as plain numbers.
void unlike_types(const Layout& layout, int count, Form form, MPI_Comm comm) {
  const auto fields = static_cast<int>(layout.fields.size());
  const bool plain = rank % 2 != 0;
  const int n = plain ? count * fields : count;
  MPI_Datatype type = plain ? MPI_INT64_T : layout.type;
  const auto numbers = [&](const auto& number_of, std::int64_t elements) {
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i < elements; ++i) {
      for (int f = 0; f < fields; ++f) all.push_back(number_of(i) * 10 + f);
    }
    return all;
  };
  const std::int64_t total = std::int64_t{count} * size;
  const auto own = [&](std::int64_t i) { return value(rank, i); };
  const auto gathered = [&](std::int64_t i) {
    return value(static_cast<int>(i / count), i % count);
  };
  const auto given = [&](std::int64_t i) {
    return value(rank, i % count, static_cast<int>(i / count));
  };
  const auto got = [&](std::int64_t i) {
    return value(static_cast<int>(i / count), i % count, rank);
  };
  Image mine(layout, count);
  Image all(layout, total);
  Image out(layout, total);
  Image in(layout, total);
  for (std::int64_t i = 0; i < count; ++i) mine.put(i, own(i));
  for (std::int64_t i = 0; i < total; ++i) all.expect(i, gathered(i));
  for (std::int64_t i = 0; i < total; ++i) out.put(i, given(i));
  for (std::int64_t i = 0; i < total; ++i) in.expect(i, got(i));
  std::vector<std::int64_t> my_numbers = numbers(own, count);
  std::vector<std::int64_t> out_numbers = numbers(given, total);
  std::vector<std::int64_t> all_numbers(out_numbers.size());
  std::vector<std::int64_t> in_numbers(out_numbers.size());
  WEFT_CALL(form, 1, Allgather, Iallgather, plain ? my_numbers.data() : mine.data(), n, type,
            plain ? all_numbers.data() : all.data(), n, type, comm);
  WEFT_CALL(form, 1, Alltoall, Ialltoall, plain ? out_numbers.data() : out.data(), n, type,
            plain ? in_numbers.data() : in.data(), n, type, comm);
  WEFT_EXPECT(plain ? all_numbers == numbers(gathered, total) : all.right(),
              at("Allgather of unlike types", layout, count, form));
  WEFT_EXPECT(plain ? in_numbers == numbers(got, total) : in.right(),
              at("Alltoall of unlike types", layout, count, form));
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::vector<Layout> layouts = make_layouts();
  for (const Form form : kForms) {
    WEFT_CALL(form, 3, Barrier, Ibarrier, MPI_COMM_WORLD);
    for (const Layout& layout : layouts) {
      for (const int count : {0, 1, 5, 300, 12000}) {
        bcast(layout, count, form, MPI_COMM_WORLD);
        bcast_mixed(layout, count, form, MPI_COMM_WORLD);
        unlike_types(layout, count, form, MPI_COMM_WORLD);
        for (const bool in_place : {false, true}) {
          gather(layout, count, form, in_place, MPI_COMM_WORLD);
          gatherv(layout, count, form, in_place, MPI_COMM_WORLD);
          scatter(layout, count, form, in_place, MPI_COMM_WORLD);
          scatterv(layout, count, form, in_place, MPI_COMM_WORLD);
          allgather(layout, count, form, in_place, MPI_COMM_WORLD);
          alltoall(layout, count, form, in_place, MPI_COMM_WORLD);
          alltoallv(layout, count, form, in_place, false, MPI_COMM_WORLD);
          alltoallv(layout, count, form, in_place, true, MPI_COMM_WORLD);
        }
      }
      bcast(layout, 300000, form, MPI_COMM_WORLD);
      // What goes to several at once, in segments.
      bcast(layout, 40'000, form, MPI_COMM_WORLD);
      bcast(layout, 33'000, form, MPI_COMM_WORLD);
      allgather(layout, 40'000, form, true, MPI_COMM_WORLD);
      allgatherv_unlike(layout, form, MPI_COMM_WORLD);
    }
  }
  free_layouts(layouts);
  return finish();
}
