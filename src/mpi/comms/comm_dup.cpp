// MPI_Comm_dup and its kin.
#include <utility>

#include "mpi/abi/calls.hpp"
#include "mpi/collectives.hpp"
#include "mpi/collectives/promise.hpp"
#include "mpi/comm.hpp"
#include "mpi/comms/hints.hpp"
#include "mpi/comms/new_comm.hpp"
#include "mpi/request.hpp"

namespace weft::mpi {

namespace {

/// The same groups, error handler and topology. Hints are the caller's: MPI does not hand them on.
Held<Comm> draft_copy(Comm& original, const Info* info) {
  Held<Comm> copy = original.inter ? draft(original.local_group, original.remote_group, &original)
                                   : draft(original.local_group, &original);
  copy->topology = original.topology;
  take_hints(*copy, info);
  return copy;
}

Schedule open_copy(Comm& copy, Council council) {
  Context context;
  const Schedule outer_steps = agree(council, context);
  bool well = co_await part(outer_steps);
  Context inner;
  if (copy.inter) {
    council.seed = mix(council.seed, 1);
    const Schedule inner_steps = agree(council, inner);
    well = co_await part(inner_steps);
  }
  if (!well) co_return;
  if (copy.inter) open_comm(*copy.local_comm, std::move(inner));
  open_comm(copy, std::move(context));
}

/// Ends a copy that came to nothing.
void discard(Comm& copy) {
  copy.attributes.end_all(AttributeOf::comm, copy.handle);
  if (Comm* removed = comms().remove(copy.handle)) removed->drop();
}

MPI_Comm duplicate(Comm& original, MPI_Comm handle, const Info* info, Kind kind) {
  Trouble met = compare_calls(original, kind);
  Held<Comm> copy = draft_copy(original, info);
  run_part(open_copy(*copy, council_of(original)), met);
  if (met.error != MPI_SUCCESS) fail_of(met);
  const MPI_Comm made = give_handle(copy);
  try {
    original.attributes.copy_to(AttributeOf::comm, handle, copy->attributes);
  } catch (...) {
    discard(*copy);
    throw;
  }
  return made;
}

/// What was wrong before the agreement, which takes place all the same: the others count on it.
struct DupTrouble {
  int code = MPI_SUCCESS;
  std::string text;
};

Schedule duplicate_later(Held<Comm> copy, Schedule compares, Council council, DupTrouble trouble,
                         MPI_Comm* result) {
  try {
    co_await part(compares);
    co_await open_copy(*copy, council);
    if (trouble.code != MPI_SUCCESS) fail(trouble.code, std::move(trouble.text));
  } catch (...) {
    discard(*copy);
    *result = MPI_COMM_NULL;
    throw;
  }
}

/// Its request.
class Duplicating final : public ScheduleWork {
 public:
  void begin(Schedule schedule, Request& request, Comm& original) {
    launch(std::move(schedule), request, original, why_);
  }
};

MPI_Request begin_duplicate(Comm& original, MPI_Comm handle, const Info* info, Kind kind,
                            MPI_Comm* result) {
  Held<Comm> copy = draft_copy(original, info);
  Request& request = make_request();
  Held<Comm> named;
  try {
    const MPI_Comm made = give_handle(copy);
    named = copy;
    DupTrouble trouble;
    try {
      original.attributes.copy_to(AttributeOf::comm, handle, copy->attributes);
    } catch (const Failure& failure) {
      trouble = {failure.code(), failure.what()};
    }
    *result = made;
    auto* work = new Duplicating;
    request.work = work;
    Schedule compares = comparison(original, kind);  // its tags first, as all collectives'
    work->begin(duplicate_later(std::move(copy), std::move(compares), council_of(original),
                                std::move(trouble), result),
                request, original);
  } catch (...) {
    *result = MPI_COMM_NULL;
    retire(request);
    if (named) discard(*named);
    throw;
  }
  return handle_of(request);
}

void idup(MPI_Comm comm, const Info* hints, Kind kind, MPI_Comm* newcomm, MPI_Request* request) {
  Comm& original = mpi::comm(comm);
  begin_output(newcomm);
  require_output(request);
  *request = begin_duplicate(original, comm, hints, kind, newcomm);
}

}  // namespace

namespace calls {

void Comm_dup(MPI_Comm comm, MPI_Comm* newcomm) {
  Comm& original = mpi::comm(comm);
  begin_output(newcomm);
  *newcomm = duplicate(original, comm, nullptr, Kind::comm_dup);
}

void Comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm* newcomm) {
  Comm& original = mpi::comm(comm);
  const Info* hints = info_or_null(info);
  begin_output(newcomm);
  *newcomm = duplicate(original, comm, hints, Kind::comm_dup_with_info);
}

void Comm_idup(MPI_Comm comm, MPI_Comm* newcomm, MPI_Request* request) {
  idup(comm, nullptr, Kind::comm_idup, newcomm, request);
}

void Comm_idup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm* newcomm, MPI_Request* request) {
  idup(comm, info_or_null(info), Kind::comm_idup_with_info, newcomm, request);
}

}  // namespace calls
}  // namespace weft::mpi
