// The calls that test requests: one look, then progress, then one look more.
#include <span>

#include "mpi/abi/calls.hpp"
#include "mpi/messages.hpp"
#include "mpi/requests/arrays.hpp"
#include "mpi/requests/ends.hpp"

namespace weft::mpi::calls {

void Test(MPI_Request* request, int* flag, MPI_Status* status) {
  require(request != nullptr && flag != nullptr, MPI_ERR_ARG, "no request or no flag");
  *flag = 1;
  if (*request == MPI_REQUEST_NULL) {
    fill(status, kEmpty);
    return;
  }
  Request& active = named(*request);
  if (active.inactive()) {
    fill(status, kEmpty);
    return;
  }
  if (!active.transfer.ended()) {
    progress_for_asker();
    if (!active.transfer.ended()) {
      *flag = 0;
      return;
    }
  }
  report_end(active, *request, status);
}

void Testall(int count, MPI_Request array_of_requests[], int* flag, MPI_Status* array_of_statuses) {
  check_array(count, array_of_requests);
  require_output(flag);
  const std::span handles(array_of_requests, static_cast<std::size_t>(count));
  *flag = 0;
  if (!all_ended(handles)) {
    progress_for_asker();
    if (!all_ended(handles)) return;
  }
  *flag = 1;
  Statuses statuses(array_of_statuses);
  RequestPool::Retirements over(request_pool());
  for (int i = 0; i < count; ++i) {
    MPI_Request& handle = array_of_requests[i];
    Request* active = handle == MPI_REQUEST_NULL ? nullptr : &named(handle);
    if (active == nullptr || active->inactive()) {
      statuses.set_empty(i);
    } else {
      statuses.conclude_into(i, *active, handle, over);
    }
  }
  statuses.finish();
}

void Testany(int count, MPI_Request array_of_requests[], int* indx, int* flag, MPI_Status* status) {
  check_array(count, array_of_requests);
  require_output(indx);
  require_output(flag);
  const std::span handles(array_of_requests, static_cast<std::size_t>(count));
  *flag = 1;
  if (conclude_one(handles, indx, status) != Look::pending) return;
  progress_for_asker();
  if (conclude_one(handles, indx, status) == Look::pending) *flag = 0;
}

void Testsome(int incount, MPI_Request array_of_requests[], int* outcount, int array_of_indices[],
              MPI_Status* array_of_statuses) {
  check_array(incount, array_of_requests);
  require_outputs(incount, outcount, array_of_indices);
  const std::span handles(array_of_requests, static_cast<std::size_t>(incount));
  // First: one request that is always ready keeps nobody else from being seen.
  progress_for_asker();
  (void)conclude_some(handles, outcount, array_of_indices, array_of_statuses);
}

}  // namespace weft::mpi::calls
