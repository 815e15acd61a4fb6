// MPI_Group_*: asking about groups, and making groups from groups.
#include <utility>
#include <vector>

#include "mpi/abi/calls.hpp"
#include "mpi/comms/group_sets.hpp"
#include "mpi/comms/output.hpp"
#include "mpi/group.hpp"
#include "mpi/process.hpp"

namespace weft::mpi {

namespace {

/// The ranks that the program lists, each in the group and at most once.
std::vector<bool> marked(const Group& group, int n, const int ranks[]) {
  require(n >= 0, MPI_ERR_ARG, "a negative number of ranks");
  require(n == 0 || ranks != nullptr, MPI_ERR_ARG, "a null array of ranks");
  std::vector<bool> marks(static_cast<std::size_t>(group.size()));
  for (int i = 0; i < n; ++i) {
    if (ranks[i] < 0 || ranks[i] >= group.size())
      fail(MPI_ERR_RANK, "a rank that is not in the group");
    const auto place = static_cast<std::size_t>(ranks[i]);
    require(!marks[place], MPI_ERR_RANK, "a rank that is listed twice");
    marks[place] = true;
  }
  return marks;
}

/// The ranks that triplets (first, last, stride) stand for, in their order.
std::vector<int> spelled_out(const Group& group, int n, int ranges[][3]) {
  require(n >= 0, MPI_ERR_ARG, "a negative number of ranges");
  require(n == 0 || ranges != nullptr, MPI_ERR_ARG, "a null array of ranges");
  std::vector<int> ranks;
  for (int i = 0; i < n; ++i) {
    const int64_t first = ranges[i][0];
    const int64_t last = ranges[i][1];
    const int64_t stride = ranges[i][2];
    if (stride == 0) fail(MPI_ERR_ARG, "a range with stride 0");
    if (first < 0 || first >= group.size())
      fail(MPI_ERR_RANK, "a range that begins outside of the group");
    if (first != last && (first < last) != (stride > 0))
      fail(MPI_ERR_ARG, "a range whose stride leads away from its end");
    for (int64_t rank = first; stride > 0 ? rank <= last : rank >= last; rank += stride) {
      if (rank < 0 || rank >= group.size()) fail(MPI_ERR_RANK, "a range that leaves the group");
      ranks.push_back(static_cast<int>(rank));
    }
  }
  return ranks;
}

Held<Group> included(const Group& group, int n, const int ranks[]) {
  (void)marked(group, n, ranks);
  std::vector<int32_t> members;
  for (int i = 0; i < n; ++i) members.push_back(group.process(ranks[i]).value);
  return Group::of(std::move(members), group, group);
}

Held<Group> excluded(const Group& group, int n, const int ranks[]) {
  const std::vector<bool> marks = marked(group, n, ranks);
  std::vector<int32_t> members;
  for (int i = 0; i < group.size(); ++i) {
    if (!marks[static_cast<std::size_t>(i)]) members.push_back(group.process(i).value);
  }
  return Group::of(std::move(members), group, group);
}

/// The members of `one` that are, or are not, in `other`, in the order of `one`.
Held<Group> filtered(const Group& one, const Group& other, bool in_other) {
  std::vector<int32_t> members;
  for (int i = 0; i < one.size(); ++i) {
    const Rank process = one.process(i);
    if ((other.rank_of(process) != MPI_UNDEFINED) == in_other) members.push_back(process.value);
  }
  return Group::of(std::move(members), one, other);
}

}  // namespace

namespace calls {

void Group_size(MPI_Group group, int* size) {
  const Group& asked = mpi::group(group);
  require_output(size);
  *size = asked.size();
}

void Group_rank(MPI_Group group, int* rank) {
  const Group& asked = mpi::group(group);
  require_output(rank);
  *rank = asked.rank_of(runtime().rank());
}

void Group_translate_ranks(MPI_Group group1, int n, const int ranks1[], MPI_Group group2,
                           int ranks2[]) {
  const Group& one = group(group1);
  const Group& other = group(group2);
  require(n >= 0, MPI_ERR_ARG, "a negative number of ranks");
  require(n == 0 || (ranks1 != nullptr && ranks2 != nullptr), MPI_ERR_ARG, "a null array of ranks");
  for (int i = 0; i < n; ++i) {
    if (ranks1[i] == MPI_PROC_NULL) {
      ranks2[i] = MPI_PROC_NULL;
      continue;
    }
    if (ranks1[i] < 0 || ranks1[i] >= one.size())
      fail(MPI_ERR_RANK, "a rank that is not in the first group");
    ranks2[i] = other.rank_of(one.process(ranks1[i]));
  }
}

void Group_compare(MPI_Group group1, MPI_Group group2, int* result) {
  const Group& one = group(group1);
  const Group& other = group(group2);
  require_output(result);
  *result = compare(one, other);
}

void Group_union(MPI_Group group1, MPI_Group group2, MPI_Group* newgroup) {
  const Group& one = group(group1);
  const Group& other = group(group2);
  require_output(newgroup);
  std::vector<int32_t> members = members_of(one);
  for (const int32_t process : members_of(other)) {
    if (one.rank_of(Rank{process}) == MPI_UNDEFINED) members.push_back(process);
  }
  *newgroup = handle_for(Group::of(std::move(members), one, other));
}

void Group_intersection(MPI_Group group1, MPI_Group group2, MPI_Group* newgroup) {
  const Group& one = group(group1);
  const Group& other = group(group2);
  require_output(newgroup);
  *newgroup = handle_for(filtered(one, other, true));
}

void Group_difference(MPI_Group group1, MPI_Group group2, MPI_Group* newgroup) {
  const Group& one = group(group1);
  const Group& other = group(group2);
  require_output(newgroup);
  *newgroup = handle_for(filtered(one, other, false));
}

void Group_incl(MPI_Group group, int n, const int ranks[], MPI_Group* newgroup) {
  const Group& whole = mpi::group(group);
  require_output(newgroup);
  *newgroup = handle_for(included(whole, n, ranks));
}

void Group_excl(MPI_Group group, int n, const int ranks[], MPI_Group* newgroup) {
  const Group& whole = mpi::group(group);
  require_output(newgroup);
  *newgroup = handle_for(excluded(whole, n, ranks));
}

void Group_range_incl(MPI_Group group, int n, int ranges[][3], MPI_Group* newgroup) {
  const Group& whole = mpi::group(group);
  require_output(newgroup);
  const std::vector<int> ranks = spelled_out(whole, n, ranges);
  *newgroup = handle_for(included(whole, static_cast<int>(ranks.size()), ranks.data()));
}

void Group_range_excl(MPI_Group group, int n, int ranges[][3], MPI_Group* newgroup) {
  const Group& whole = mpi::group(group);
  require_output(newgroup);
  const std::vector<int> ranks = spelled_out(whole, n, ranges);
  *newgroup = handle_for(excluded(whole, static_cast<int>(ranks.size()), ranks.data()));
}

void Group_free(MPI_Group* group) {
  require_output(group);
  (void)mpi::group(*group);
  // Groups without members all have the one predefined handle: nothing to free then.
  if (Group* freed = groups().remove(*group)) freed->drop();
  *group = MPI_GROUP_NULL;
}

}  // namespace calls
}  // namespace weft::mpi
