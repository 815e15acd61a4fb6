// Communicators: from draft to end.
#include "mpi/comm.hpp"

#include <utility>

#include "mpi/collectives/posts.hpp"
#include "mpi/collectives/promise.hpp"
#include "mpi/comms/hints.hpp"
#include "mpi/comms/new_comm.hpp"
#include "mpi/messages.hpp"
#include "mpi/process.hpp"

namespace weft::mpi {

Comm::~Comm() {
  if (channels[0] != nullptr) close_channels(*this);
  // Nothing names it any more: no operation, no handle. So the others may have the number again.
  if (context >= ContextIds::kFirstFree) context_ids().give_back(context);
}

Comm& intra_comm(MPI_Comm handle) {
  Comm& found = comm(handle);
  if (found.inter) [[unlikely]]
    fail(MPI_ERR_COMM, "an inter-communicator, where only an intra-communicator may be");
  return found;
}

Held<Comm> draft(Held<Group> group, Comm* parent) {
  auto made = Held<Comm>::adopt(new Comm);
  made->local_group = std::move(group);
  made->remote = made->local_group.get();
  made->remote_size = made->size();
  made->rank = made->local_group->rank_of(runtime().rank());
  if (parent == nullptr) {
    made->errhandler = Held<Errhandler>(&errhandler(settings().initial_errhandler));
  } else {
    const std::scoped_lock guard(parent->lock);
    made->errhandler = parent->errhandler;
    made->session = parent->session;
  }
  return made;
}

Held<Comm> draft(Held<Group> local, Held<Group> remote, Comm* parent) {
  Held<Comm> made = draft(local, parent);
  made->inter = true;
  made->remote_group = std::move(remote);
  made->remote = made->remote_group.get();
  made->remote_size = made->remote->size();
  made->local_comm = draft(std::move(local), parent);
  return made;
}

void open_comm(Comm& comm, Context context) {
  comm.context = context.take();
  open_channels(comm);
}

MPI_Comm give_handle(Held<Comm> comm) {
  const MPI_Comm handle = comms().add(comm.get());
  comm->handle = handle;
  (void)comm.release();
  return handle;
}

Context agree_now(const Council& council, Trouble& met) {
  Context agreed;
  run_part(agree(council, agreed), met);
  return agreed;
}

MPI_Comm make_agreed(const Council& council, Wanted wanted, Trouble met) {
  Context context = agree_now(council, met);
  if (met.error != MPI_SUCCESS) fail_of(met);
  if (!wanted.group) return MPI_COMM_NULL;
  Held<Comm> made = draft(std::move(wanted.group), wanted.parent);
  made->topology = std::move(wanted.topology);
  if (wanted.errhandler) made->errhandler = std::move(wanted.errhandler);
  take_hints(*made, wanted.hints);
  open_comm(*made, std::move(context));
  return give_handle(std::move(made));
}

void tell_other_side(Comm& inter, std::span<const std::byte> ours, std::span<std::byte> theirs,
                     Trouble& met) {
  run_part(tell_across(council_of(inter), ours, theirs), met);
}

}  // namespace weft::mpi
