// MPI_Intercomm_create and _merge.
#include <optional>
#include <utility>

#include "mpi/abi/calls.hpp"
#include "mpi/collectives.hpp"
#include "mpi/collectives/promise.hpp"
#include "mpi/comm.hpp"
#include "mpi/comms/group_sets.hpp"
#include "mpi/comms/hints.hpp"
#include "mpi/comms/new_comm.hpp"
#include "mpi/process.hpp"

namespace weft::mpi {

namespace {

/// What a leader learns of the other side, or what was wrong with its arguments.
struct Greeting {
  uint64_t seed = 0;
  int32_t size = 0;
  int32_t error = MPI_SUCCESS;
};

/// The way from one leader to the other; known to leaders only.
struct Bridge {
  Comm* peer = nullptr;
  int remote_leader = 0;
  int tag = 0;
};

Bridge checked_bridge(const Comm& local, MPI_Comm peer_comm, int remote_leader, int tag) {
  Comm& peer = comm(peer_comm);
  if (remote_leader < 0 || remote_leader >= peer.remote_size)
    fail(MPI_ERR_RANK, "the remote leader is no rank of the peer communicator");
  if (local.local_group->rank_of(peer.process(remote_leader)) != MPI_UNDEFINED)
    fail(MPI_ERR_RANK, "the remote leader is of the local group");
  require(tag >= 0, MPI_ERR_TAG, "a negative tag");
  return {&peer, remote_leader, leaders_tag(static_cast<uint64_t>(tag))};
}

/// Leaders exchange their groups and tell them to their own. The others' group.
Held<Group> meet(Council& council, Greeting& theirs, Trouble& met) {
  const Comm& local = *council.inside;
  const Greeting ours{mix(local.context, static_cast<uint64_t>(council.tag)), local.size(),
                      MPI_SUCCESS};
  run_part(tell_across(council, std::as_bytes(std::span(&ours, 1)),
                       std::as_writable_bytes(std::span(&theirs, 1))),
           met);
  // Others may have met a death instead, and wait for who knows that the arguments are wrong.
  if (theirs.error != MPI_SUCCESS) met.note(theirs.error, runtime().rank());
  // Who does not know the size goes on as if it were one: what it passes on says that it failed.
  if (met.error != MPI_SUCCESS) theirs.size = 1;
  const std::vector<int32_t> own = members_of(*local.local_group);
  std::vector<int32_t> members(static_cast<std::size_t>(theirs.size));
  run_part(tell_across(council, bytes_of(own), bytes_of(members)), met);
  council.seed = ours.seed + theirs.seed;  // both sides come to the same
  return Group::of(std::move(members));
}

MPI_Comm connect(Comm& local, int leader, MPI_Comm peer_comm, int remote_leader, int tag,
                 Trouble met) {
  Council council;
  council.inside = &local;
  council.tag = next_collective_tag(local);
  council.bridged = true;
  council.leader = leader;
  Greeting theirs;
  std::optional<Failure> wrong;
  if (local.rank == leader) {
    try {
      const Bridge bridge = checked_bridge(local, peer_comm, remote_leader, tag);
      council.bridge = bridge.peer;
      council.across = bridge.remote_leader;
      council.bridge_tag = bridge.tag;
    } catch (const Failure& failure) {
      // The others wait for word of the leader.
      theirs.error = failure.code();
      wrong = failure;
    }
  }
  Held<Group> remote = meet(council, theirs, met);
  if (!wrong && theirs.error != MPI_SUCCESS)
    wrong.emplace(theirs.error, "the leader of the local group was given wrong arguments");
  if (met.error == MPI_SUCCESS && !are_disjoint(*local.local_group, *remote)) {
    wrong.emplace(MPI_ERR_COMM, "the two groups of an inter-communicator have a process in common");
    met.note(MPI_ERR_COMM, runtime().rank());
  }
  WantedInter wanted{local.local_group, std::move(remote), &local};
  if (wrong) wanted.wrong = &*wrong;
  return make_inter(council, std::move(wanted), met);
}

}  // namespace

MPI_Comm make_inter(Council council, WantedInter wanted, Trouble met) {
  Context context = agree_now(council, met);
  council.seed = mix(council.seed, 1);
  Context inner = agree_now(council, met);
  if (wanted.wrong != nullptr) throw *wanted.wrong;
  if (met.error != MPI_SUCCESS) fail_of(met);
  if (!wanted.local) return MPI_COMM_NULL;
  Held<Comm> made = draft(std::move(wanted.local), std::move(wanted.remote), wanted.parent);
  if (wanted.errhandler) {
    made->errhandler = wanted.errhandler;
    made->local_comm->errhandler = wanted.errhandler;
  }
  take_hints(*made, wanted.hints);
  open_comm(*made->local_comm, std::move(inner));
  open_comm(*made, std::move(context));
  return give_handle(std::move(made));
}

namespace calls {

void Intercomm_create(MPI_Comm local_comm, int local_leader, MPI_Comm peer_comm, int remote_leader,
                      int tag, MPI_Comm* newintercomm) {
  Comm& local = intra_comm(local_comm);
  begin_output(newintercomm);
  if (local_leader < 0 || local_leader >= local.size())
    fail(MPI_ERR_RANK, "the local leader is no rank of the local communicator");
  const Trouble met = compare_calls(local, Kind::intercomm_create, local_leader);
  *newintercomm = connect(local, local_leader, peer_comm, remote_leader, tag, met);
}

void Intercomm_merge(MPI_Comm intercomm, int high, MPI_Comm* newintracomm) {
  Comm& parent = comm(intercomm);
  if (!parent.inter) fail(MPI_ERR_COMM, "an intra-communicator cannot be merged");
  begin_output(newintracomm);
  Trouble met = compare_calls(parent, Kind::intercomm_merge);
  const std::vector<int32_t> ours{high != 0 ? 1 : 0};
  std::vector<int32_t> theirs(1);
  tell_other_side(parent, bytes_of(ours), bytes_of(theirs), met);
  // If both want the same, the side with the first process of the job comes first.
  const bool first = ours[0] != theirs[0]
                         ? ours[0] == 0
                         : parent.local_group->process(0) < parent.remote_group->process(0);
  std::vector<int32_t> members = members_of(first ? *parent.local_group : *parent.remote_group);
  const std::vector<int32_t> rest = members_of(first ? *parent.remote_group : *parent.local_group);
  members.insert(members.end(), rest.begin(), rest.end());
  *newintracomm = make_agreed(council_of(parent), {Group::of(std::move(members)), &parent}, met);
}

}  // namespace calls
}  // namespace weft::mpi
