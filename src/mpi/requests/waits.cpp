// The calls that wait for requests.
#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "mpi/abi/calls.hpp"
#include "mpi/messages.hpp"
#include "mpi/requests/arrays.hpp"
#include "mpi/requests/ends.hpp"

namespace weft::mpi {

namespace {

/// Requests that Waitall waits for at a time: one counter for all of them.
constexpr int kTogether = 128;

/// Waits for `count` <= kTogether requests, then concludes them.
void wait_for_all(int count, MPI_Request* handles, int first, Statuses& statuses) {
  RequestPool& pool = request_pool();
  std::array<Request*, kTogether> requests;
  std::array<Transfer*, kTogether> pending;
  std::size_t left = 0;
  for (int i = 0; i < count; ++i) {
    requests[i] = nullptr;
    if (pool.is_common_done(handles[i]) || handles[i] == MPI_REQUEST_NULL) continue;
    Request& found = named(handles[i]);
    if (found.inactive()) continue;
    requests[i] = &found;
    if (!found.transfer.ended()) pending[left++] = &found.transfer;
  }
  if (left == 1) {
    wait(*pending[0]);
  } else if (left != 0) {
    wait_all(std::span<Transfer* const>(pending.data(), left));
  }
  RequestPool::Retirements over(pool);
  for (int i = 0; i < count; ++i) {
    if (requests[i] != nullptr) {
      statuses.conclude_into(first + i, *requests[i], handles[i], over);
    } else {
      if (pool.is_common_done(handles[i])) handles[i] = MPI_REQUEST_NULL;
      statuses.set_empty(first + i);
    }
  }
}

/// Returns when one of the requests has ended; false: none is active.
bool wait_for_one(std::span<MPI_Request> handles) {
  std::array<Transfer*, 64> near;
  std::vector<Transfer*> far;
  std::size_t found = 0;
  if (handles.size() > near.size()) far.resize(handles.size());
  Transfer** pending = far.empty() ? near.data() : far.data();
  for (const MPI_Request handle : handles) {
    if (handle == MPI_REQUEST_NULL) continue;
    Request& active = named(handle);
    if (active.inactive()) continue;
    if (active.transfer.ended()) return true;
    pending[found++] = &active.transfer;
  }
  if (found == 0) return false;
  if (found == 1) {
    wait(*pending[0]);
  } else if (!wait_any(std::span<Transfer* const>(pending, found))) {
    fail(MPI_ERR_REQUEST, "the same request twice, or one that another thread waits for");
  }
  return true;
}

}  // namespace

namespace calls {

void Wait(MPI_Request* request, MPI_Status* status) {
  require(request != nullptr, MPI_ERR_ARG, "no request: a null pointer");
  if (*request == MPI_REQUEST_NULL) {
    fill(status, kEmpty);
    return;
  }
  Request& active = named(*request);
  if (active.inactive()) {
    fill(status, kEmpty);
    return;
  }
  if (!active.transfer.ended()) wait(active.transfer);
  report_end(active, *request, status);
}

void Waitall(int count, MPI_Request array_of_requests[], MPI_Status* array_of_statuses) {
  check_array(count, array_of_requests);
  if (count > kTogether) {  // A bad handle is told before any of the others has been concluded.
    for (const MPI_Request handle : std::span(array_of_requests, static_cast<std::size_t>(count)))
      if (handle != MPI_REQUEST_NULL) (void)named(handle);
  }
  Statuses statuses(array_of_statuses);
  for (int first = 0; first < count; first += kTogether) {
    wait_for_all(std::min(kTogether, count - first), array_of_requests + first, first, statuses);
  }
  statuses.finish();
}

void Waitany(int count, MPI_Request array_of_requests[], int* indx, MPI_Status* status) {
  check_array(count, array_of_requests);
  require_output(indx);
  const std::span handles(array_of_requests, static_cast<std::size_t>(count));
  do {
    if (conclude_one(handles, indx, status) != Look::pending) return;
  } while (wait_for_one(handles));
}

void Waitsome(int incount, MPI_Request array_of_requests[], int* outcount, int array_of_indices[],
              MPI_Status* array_of_statuses) {
  check_array(incount, array_of_requests);
  require_outputs(incount, outcount, array_of_indices);
  const std::span handles(array_of_requests, static_cast<std::size_t>(incount));
  // What came since the last call counts too: one request that is always ready keeps nobody else
  // from being seen.
  progress();
  do {
    if (conclude_some(handles, outcount, array_of_indices, array_of_statuses) != Look::pending) {
      return;
    }
  } while (wait_for_one(handles));
}

}  // namespace calls

}  // namespace weft::mpi
