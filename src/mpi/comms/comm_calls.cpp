// MPI_Comm_*: asking about communicators, naming and ending them.
#include <cstring>
#include <string>

#include "mpi/abi/calls.hpp"
#include "mpi/collectives/call.hpp"
#include "mpi/comm.hpp"
#include "mpi/comms/group_sets.hpp"
#include "mpi/comms/new_comm.hpp"
#include "mpi/messages.hpp"
#include "mpi/process.hpp"
#include "mpi/request.hpp"

namespace weft::mpi {

namespace {

int compare_groups(const Comm& one, const Comm& other) {
  const int local = compare(*one.local_group, *other.local_group);
  if (!one.inter) return local;
  const int remote = compare(*one.remote_group, *other.remote_group);
  if (local == MPI_UNEQUAL || remote == MPI_UNEQUAL) return MPI_UNEQUAL;
  return local == MPI_SIMILAR || remote == MPI_SIMILAR ? MPI_SIMILAR : MPI_IDENT;
}

const Comm& inter_comm(MPI_Comm handle) {
  const Comm& found = comm(handle);
  if (!found.inter) fail(MPI_ERR_COMM, "an intra-communicator has no remote group");
  return found;
}

/// Deletes its attributes, then its handle; operations under way hold it on.
void free_comm(MPI_Comm* handle) {
  Comm& object = comm(*handle);
  const Held<Comm> held(&object);  // a callback may free it
  if (*handle == MPI_COMM_WORLD || *handle == MPI_COMM_SELF)
    fail(MPI_ERR_COMM, "a predefined communicator cannot be freed");
  const int code = object.attributes.erase_all(AttributeOf::comm, *handle);
  if (code != MPI_SUCCESS) {
    fail(code, "the delete callback of an attribute answered code " + std::to_string(code) +
                   "; the communicator stays");
  }
  if (settings().report_leaks) serve_what_came();
  if (Comm* freed = comms().remove(*handle)) drop_when_unused(freed);
  *handle = MPI_COMM_NULL;
}

}  // namespace

namespace calls {

void Comm_size(MPI_Comm comm, int* size) {
  const Comm& object = mpi::comm(comm);
  require_output(size);
  *size = object.size();
}

void Comm_rank(MPI_Comm comm, int* rank) {
  const Comm& object = mpi::comm(comm);
  require_output(rank);
  *rank = object.rank;
}

void Comm_remote_size(MPI_Comm comm, int* size) {
  const Comm& object = inter_comm(comm);
  require_output(size);
  *size = object.remote_size;
}

void Comm_test_inter(MPI_Comm comm, int* flag) {
  const Comm& object = mpi::comm(comm);
  require_output(flag);
  *flag = object.inter ? 1 : 0;
}

void Comm_group(MPI_Comm comm, MPI_Group* group) {
  const Comm& object = mpi::comm(comm);
  require_output(group);
  Held<Group> members = object.local_group;
  if (members->session != object.session) {  // of a split, for example: it is not told by itself
    members = Group::of(members_of(*members));
    members->session = object.session;
  }
  *group = handle_for(std::move(members));
}

void Comm_remote_group(MPI_Comm comm, MPI_Group* group) {
  const Comm& object = inter_comm(comm);
  require_output(group);
  *group = handle_for(object.remote_group);
}

void Comm_compare(MPI_Comm comm1, MPI_Comm comm2, int* result) {
  const Comm& one = comm(comm1);
  const Comm& other = comm(comm2);
  require_output(result);
  if (&one == &other) {
    *result = MPI_IDENT;
  } else if (one.inter != other.inter) {
    *result = MPI_UNEQUAL;
  } else {
    const int groups = compare_groups(one, other);
    *result = groups == MPI_IDENT ? MPI_CONGRUENT : groups;
  }
}

void Comm_get_parent(MPI_Comm* parent) {
  require_output(parent);
  *parent = MPI_COMM_NULL;  // no process of ours was spawned
}

void Comm_set_name(MPI_Comm comm, const char* comm_name) {
  Comm& object = mpi::comm(comm);
  require(comm_name != nullptr, MPI_ERR_ARG, "a null pointer for a name");
  const std::scoped_lock guard(object.lock);
  object.name.assign(comm_name, strnlen(comm_name, MPI_MAX_OBJECT_NAME - 1));
  name_channels(object);
}

void Comm_get_name(MPI_Comm comm, char* comm_name, int* resultlen) {
  std::string name = "MPI_COMM_NULL";
  if (comm != MPI_COMM_NULL) {
    Comm& object = mpi::comm(comm);
    const std::scoped_lock guard(object.lock);
    name = object.name;
  }
  require_output(comm_name);
  require_output(resultlen);
  std::memcpy(comm_name, name.c_str(), name.size() + 1);
  *resultlen = static_cast<int>(name.size());
}

void Comm_free(MPI_Comm* comm) {
  require_output(comm);
  free_comm(comm);
}

void Comm_disconnect(MPI_Comm* comm) {
  require_output(comm);
  Comm& object = mpi::comm(*comm);
  if (*comm != MPI_COMM_WORLD && *comm != MPI_COMM_SELF) {
    // Nobody goes on before all, of both sides, have ended what they had under way on it.
    if (!wait_for_operations(object)) {
      fail(MPI_ERR_PROC_ABORTED,
           "a member has died while operations are under way on the communicator");
    }
    run_now(Call(Kind::barrier, object));
  }
  free_comm(comm);
}

}  // namespace calls
}  // namespace weft::mpi
