// Cancel, free, look at: the calls on one request beside waits and tests.
#include <span>

#include "mpi/abi/calls.hpp"
#include "mpi/messages.hpp"
#include "mpi/requests/arrays.hpp"
#include "mpi/requests/ends.hpp"

namespace weft::mpi {

namespace {

// Empty statuses have MPI_ERROR, too, here: there is none in them (MPI 3.7.3).

/// The request of a handle; nullptr: there is nothing to wait for.
Request* active_or_null(MPI_Request handle) {
  if (handle == MPI_REQUEST_NULL) return nullptr;
  Request& found = request(handle);
  return found.inactive() ? nullptr : &found;
}

}  // namespace

namespace calls {

void Cancel(MPI_Request* request) {
  require(request != nullptr, MPI_ERR_ARG, "no request: a null pointer");
  Request& active = mpi::request(*request);
  require(!active.inactive(), MPI_ERR_REQUEST, "cancels a persistent request that is not active");
  if (active.constant) return;
  if (active.work != nullptr) {
    active.work->cancel(active);
  } else if (active.receives) {
    (void)cancel_recv(active.transfer);
  } else {
    cancel_send(active.transfer);
  }
}

void Request_free(MPI_Request* request) {
  require(request != nullptr, MPI_ERR_ARG, "no request: a null pointer");
  Request& freed = mpi::request(*request);
  if (freed.constant) {
    // Nothing is to be done.
  } else if (freed.inactive()) {
    retire(freed);
  } else if (freed.work == nullptr || !freed.work->detach(freed)) {
    retire_when_ended(freed);
  }
  *request = MPI_REQUEST_NULL;
}

void Request_get_status(MPI_Request request, int* flag, MPI_Status* status) {
  require_output(flag);
  *flag = 1;
  Request* active = active_or_null(request);
  if (active == nullptr) {
    fill(status, kEmpty, true);
    return;
  }
  if (!active->transfer.ended()) progress_for_asker();
  if (active->transfer.ended()) {
    report_peek(*active, status);
  } else {
    *flag = 0;
  }
}

void Request_get_status_all(int count, const MPI_Request array_of_requests[], int* flag,
                            MPI_Status* array_of_statuses) {
  check_array(count, array_of_requests);
  require_output(flag);
  const std::span handles(array_of_requests, static_cast<std::size_t>(count));
  if (!all_ended(handles)) progress_for_asker();
  *flag = all_ended(handles) ? 1 : 0;
  if (*flag == 0) return;
  Statuses statuses(array_of_statuses);
  for (int i = 0; i < count; ++i) {
    Request* active = active_or_null(array_of_requests[i]);
    if (active != nullptr) {
      statuses.peek_into(i, *active);
    } else if (array_of_statuses != MPI_STATUSES_IGNORE) {
      fill(&array_of_statuses[i], kEmpty, true);
    }
  }
  statuses.finish();
}

void Request_get_status_any(int count, const MPI_Request array_of_requests[], int* indx, int* flag,
                            MPI_Status* status) {
  check_array(count, array_of_requests);
  require_output(indx);
  require_output(flag);
  *indx = MPI_UNDEFINED;
  bool pending = false;
  for (int look = 0; look < 2; ++look) {
    pending = false;
    for (int i = 0; i < count; ++i) {
      Request* active = active_or_null(array_of_requests[i]);
      if (active == nullptr) continue;
      if (active->transfer.ended()) {
        *indx = i;
        *flag = 1;
        report_peek(*active, status);
        return;
      }
      pending = true;
    }
    if (!pending) break;
    if (look == 0) progress_for_asker();
  }
  *flag = pending ? 0 : 1;
  if (!pending) fill(status, kEmpty, true);
}

void Request_get_status_some(int incount, const MPI_Request array_of_requests[], int* outcount,
                             int array_of_indices[], MPI_Status* array_of_statuses) {
  check_array(incount, array_of_requests);
  require_outputs(incount, outcount, array_of_indices);
  progress_for_asker();
  Statuses statuses(array_of_statuses);
  bool active_ones = false;
  int ended = 0;
  for (int i = 0; i < incount; ++i) {
    Request* active = active_or_null(array_of_requests[i]);
    if (active == nullptr) continue;
    active_ones = true;
    if (!active->transfer.ended()) continue;
    array_of_indices[ended] = i;
    statuses.peek_into(ended++, *active);
  }
  *outcount = active_ones ? ended : MPI_UNDEFINED;
  statuses.finish();
}

}  // namespace calls

}  // namespace weft::mpi
