// MPI_Comm_create and _create_group: communicators of groups.
#include <algorithm>
#include <utility>

#include "mpi/abi/calls.hpp"
#include "mpi/collectives.hpp"
#include "mpi/comm.hpp"
#include "mpi/comms/group_sets.hpp"
#include "mpi/comms/new_comm.hpp"
#include "mpi/process.hpp"

namespace weft::mpi {

namespace {

/// The group, if this process is of it.
Held<Group> if_member(Group& group) {
  if (group.rank_of(runtime().rank()) == MPI_UNDEFINED) return {};
  return Held<Group>(&group);
}

/// Each side gives its part of the new one; without members on both there is none.
MPI_Comm create_inter(Comm& parent, Group& ours, Trouble met) {
  const auto most = static_cast<std::size_t>(parent.remote_size);
  std::vector<int32_t> mine(1 + static_cast<std::size_t>(parent.size()), -1);
  const std::vector<int32_t> members = members_of(ours);
  mine[0] = ours.size();
  std::copy(members.begin(), members.end(), mine.begin() + 1);
  std::vector<int32_t> theirs(1 + most);
  tell_other_side(parent, bytes_of(std::as_const(mine)), bytes_of(theirs), met);
  const int32_t remote_size = theirs[0];
  theirs.erase(theirs.begin());
  theirs.resize(static_cast<std::size_t>(remote_size));

  Held<Group> local = remote_size == 0 ? Held<Group>() : if_member(ours);
  return make_inter(council_of(parent), {std::move(local), Group::of(std::move(theirs)), &parent},
                    met);
}

}  // namespace

namespace calls {

void Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm* newcomm) {
  Comm& parent = mpi::comm(comm);
  Group& members = mpi::group(group);
  begin_output(newcomm);
  if (checking() && !is_within(members, *parent.local_group))
    fail(MPI_ERR_GROUP, "the group is not part of the communicator's");
  const Trouble met = compare_calls(parent, Kind::comm_create);
  *newcomm = parent.inter ? create_inter(parent, members, met)
                          : make_agreed(council_of(parent), {if_member(members), &parent}, met);
}

void Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm* newcomm) {
  Comm& parent = intra_comm(comm);
  Group& members = mpi::group(group);
  begin_output(newcomm);
  require(tag >= 0, MPI_ERR_TAG, "a negative tag");
  if (checking() && !is_within(members, *parent.local_group))
    fail(MPI_ERR_GROUP, "the group is not part of the communicator's");
  *newcomm = MPI_COMM_NULL;
  Held<Group> ours = if_member(members);
  if (!ours) return;
  Council council;
  council.inside = &parent;
  council.members = &members;
  council.tag = members_tag(static_cast<uint64_t>(tag));
  council.seed = mix(parent.context, mix(static_cast<uint64_t>(tag),
                                         static_cast<uint64_t>(members.process(0).value)));
  *newcomm = make_agreed(council, {std::move(ours), &parent});
}

}  // namespace calls
}  // namespace weft::mpi
