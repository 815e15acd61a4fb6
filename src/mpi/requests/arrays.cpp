// Concluding requests of an array.
#include "mpi/requests/arrays.hpp"

#include "mpi/requests/ends.hpp"

namespace weft::mpi {

Look conclude_one(std::span<MPI_Request> handles, int* index, MPI_Status* status) {
  Look found = Look::none_active;
  for (std::size_t i = 0; i < handles.size(); ++i) {
    if (handles[i] == MPI_REQUEST_NULL) continue;
    Request& active = named(handles[i]);
    if (active.inactive()) continue;
    if (active.transfer.ended()) {
      *index = static_cast<int>(i);
      report_end(active, handles[i], status);
      return Look::ended;
    }
    found = Look::pending;
  }
  *index = MPI_UNDEFINED;
  if (found == Look::none_active) fill(status, kEmpty);
  return found;
}

Look conclude_some(std::span<MPI_Request> handles, int* number, int* indices,
                   MPI_Status* statuses) {
  Look found = Look::none_active;
  Statuses reported(statuses);
  int ended = 0;
  for (std::size_t i = 0; i < handles.size(); ++i) {
    if (handles[i] == MPI_REQUEST_NULL) continue;
    Request& active = named(handles[i]);
    if (active.inactive()) continue;
    if (!active.transfer.ended()) {
      if (found == Look::none_active) found = Look::pending;
      continue;
    }
    found = Look::ended;
    indices[ended++] = static_cast<int>(i);
  }
  // After all were looked at: a bad handle is told before any of them is concluded.
  RequestPool::Retirements over(request_pool());
  for (int i = 0; i < ended; ++i) {
    MPI_Request& handle = handles[static_cast<std::size_t>(indices[i])];
    reported.conclude_into(i, named(handle), handle, over);
  }
  *number = found == Look::none_active ? MPI_UNDEFINED : ended;
  reported.finish();
  return found;
}

bool all_ended(std::span<const MPI_Request> handles) {
  for (const MPI_Request handle : handles) {
    if (handle == MPI_REQUEST_NULL) continue;
    const Request& active = named(handle);
    if (!active.inactive() && !active.transfer.ended()) return false;
  }
  return true;
}

}  // namespace weft::mpi
