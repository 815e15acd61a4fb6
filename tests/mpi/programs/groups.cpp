// MPI_Group_*: sets of processes, against sets of numbers.
#include <mpi.h>

#include <algorithm>
#include <vector>

#include "comms_check.hpp"

namespace {

using Ranks = std::vector<int>;

MPI_Group world;
int size;

MPI_Group including(const Ranks& ranks) {
  MPI_Group group;
  MPI_Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &group);
  return group;
}

/// The members as ranks of the world.
Ranks members(MPI_Group group) {
  int count = -1;
  MPI_Group_size(group, &count);
  Ranks own(static_cast<std::size_t>(count));
  Ranks there(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) own[static_cast<std::size_t>(i)] = i;
  MPI_Group_translate_ranks(group, count, own.data(), world, there.data());
  return there;
}

void free_group(MPI_Group group) {
  MPI_Group_free(&group);
  WEFT_EXPECT(group == MPI_GROUP_NULL);
}

/// All subsets as masks, each also in reverse order.
std::vector<Ranks> many_lists() {
  std::vector<Ranks> lists;
  for (int mask = 0; mask < 1 << size; ++mask) {
    Ranks list;
    for (int i = 0; i < size; ++i) {
      if ((mask >> i & 1) != 0) list.push_back(i);
    }
    lists.push_back(list);
    std::reverse(list.begin(), list.end());
    lists.push_back(list);
  }
  return lists;
}

bool has(const Ranks& list, int rank) {
  return std::find(list.begin(), list.end(), rank) != list.end();
}

void check_pair(const Ranks& one, const Ranks& other) {
  const MPI_Group a = including(one);
  const MPI_Group b = including(other);
  Ranks both;
  Ranks only;
  Ranks all = one;
  for (const int rank : one) (has(other, rank) ? both : only).push_back(rank);
  for (const int rank : other) {
    if (!has(one, rank)) all.push_back(rank);
  }
  MPI_Group made;
  MPI_Group_union(a, b, &made);
  WEFT_EXPECT(members(made) == all);
  free_group(made);
  MPI_Group_intersection(a, b, &made);
  WEFT_EXPECT(members(made) == both);
  WEFT_EXPECT(!both.empty() || made == MPI_GROUP_EMPTY);
  free_group(made);
  MPI_Group_difference(a, b, &made);
  WEFT_EXPECT(members(made) == only);
  free_group(made);
  int result = -1;
  MPI_Group_compare(a, b, &result);
  const int expected = one == other                                 ? MPI_IDENT
                       : one.size() == other.size() && only.empty() ? MPI_SIMILAR
                                                                    : MPI_UNEQUAL;
  WEFT_EXPECT(result == expected);
  free_group(a);
  free_group(b);
}

void check_excluding(const Ranks& list) {
  MPI_Group made;
  MPI_Group_excl(world, static_cast<int>(list.size()), list.data(), &made);
  Ranks rest;
  for (int i = 0; i < size; ++i) {
    if (!has(list, i)) rest.push_back(i);
  }
  WEFT_EXPECT(members(made) == rest);
  free_group(made);
}

void check_ranges() {
  int up[1][3] = {{0, size - 1, 2}};
  int down[1][3] = {{size - 1, 0, -1}};
  MPI_Group made;
  MPI_Group_range_incl(world, 1, up, &made);
  Ranks even;
  for (int i = 0; i < size; i += 2) even.push_back(i);
  WEFT_EXPECT(members(made) == even);
  free_group(made);
  MPI_Group_range_incl(world, 1, down, &made);
  Ranks reversed;
  for (int i = size; i-- > 0;) reversed.push_back(i);
  WEFT_EXPECT(members(made) == reversed);
  free_group(made);
  MPI_Group_range_excl(world, 1, up, &made);
  Ranks odd;
  for (int i = 1; i < size; i += 2) odd.push_back(i);
  WEFT_EXPECT(members(made) == odd);
  free_group(made);
  MPI_Group_range_excl(world, 1, down, &made);
  WEFT_EXPECT(made == MPI_GROUP_EMPTY);
  free_group(made);
}

void check_ranks() {
  int rank = -1;
  MPI_Group_rank(world, &rank);
  WEFT_EXPECT(rank == check::rank_in(MPI_COMM_WORLD));
  const MPI_Group first = including({0});
  MPI_Group_rank(first, &rank);
  WEFT_EXPECT(rank == (check::rank_in(MPI_COMM_WORLD) == 0 ? 0 : MPI_UNDEFINED));
  int ranks[2] = {MPI_PROC_NULL, size - 1};
  int there[2] = {};
  MPI_Group_translate_ranks(world, 2, ranks, first, there);
  WEFT_EXPECT(there[0] == MPI_PROC_NULL);
  WEFT_EXPECT(there[1] == (size == 1 ? 0 : MPI_UNDEFINED));
  free_group(first);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_size(world, &size);
  WEFT_EXPECT(size == check::size_of(MPI_COMM_WORLD));
  const std::vector<Ranks> lists = many_lists();
  for (const Ranks& one : lists) {
    check_excluding(one);
    for (const Ranks& other : lists) check_pair(one, other);
  }
  check_ranges();
  check_ranks();
  free_group(world);
  MPI_Finalize();
  return check::failures == 0 ? 0 : 1;
}
