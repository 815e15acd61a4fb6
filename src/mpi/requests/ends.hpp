// How the ends of transfers and requests are told: statuses and failures.
#pragma once

#include <string>

#include "mpi/request.hpp"
#include "mpi/requests/pool.hpp"
#include "mpi/status.hpp"

namespace weft::mpi {

/// Throws the failure that `transfer` ended with; `comm` may be nullptr.
[[noreturn]] void fail_as(const Transfer& transfer, const Comm* comm);
/// The same, where there is none but a class.
[[noreturn]] void fail_as(int error, const Comm* comm);

/// Reports the end of a blocking transfer.
inline void report(const Transfer& transfer, const Comm& comm, MPI_Status* status) {
  fill(status, transfer.outcome);
  if (transfer.outcome.error != MPI_SUCCESS) [[unlikely]]
    fail_as(transfer, &comm);
}

/// The general way to conclude. `why`: a sentence, if there is an error; `comm`: of it.
Outcome conclude_any(Request& request, MPI_Request& handle, std::string& why, MPI_Comm& comm);

/// What a request that has ended came to. A plain one ends, `handle` becomes null; a persistent one
/// becomes inactive. Throws MPI_ERR_REQUEST if the request has been concluded under a copy of the
/// handle. The callers' ways to deal with errors differ: they look at `error`.
inline Outcome conclude(Request& request, MPI_Request& handle, std::string& why, MPI_Comm& comm) {
  if (request.work == nullptr && request.transfer.outcome.error == MPI_SUCCESS &&
      RequestPool::is_named_by(request, handle)) [[likely]] {
    const Outcome outcome = request.transfer.outcome;
    request_pool().retire(request);
    handle = MPI_REQUEST_NULL;
    return outcome;
  }
  return conclude_any(request, handle, why, comm);
}

/// What a wait would report now of a request that has ended, or is inactive; it stays as it is.
Outcome peek(Request& request, std::string& why, MPI_Comm& comm);
/// The same for one request, as report_end.
void report_peek(Request& request, MPI_Status* status);

/// One request's end, for calls that return one status.
inline void report_end(Request& request, MPI_Request& handle, MPI_Status* status) {
  std::string why;
  MPI_Comm comm = MPI_COMM_NULL;
  const Outcome outcome = conclude(request, handle, why, comm);
  fill(status, outcome);
  if (outcome.error != MPI_SUCCESS) [[unlikely]]
    throw Failure(outcome.error, std::move(why)).about(comm);
}

/// The statuses of a call that returns several. MPI_ERROR is written only if one has failed
/// (MPI 3.2.5), then in all.
class Statuses {
 public:
  explicit Statuses(MPI_Status* statuses) noexcept : statuses_(statuses) {}
  /// What inactive and null requests answer.
  void set_empty(int i) noexcept {
    if (statuses_ != MPI_STATUSES_IGNORE) fill(&statuses_[i], kEmpty, failed_ != 0);
  }
  /// Status `i` is of `request`, which has ended. Statuses come in order.
  void conclude_into(int i, Request& request, MPI_Request& handle) {
    set(i, conclude(request, handle, why_, comm_));
  }
  /// The same, and the request stays as it is.
  void peek_into(int i, Request& request) { set(i, peek(request, why_, comm_)); }
  /// Throws MPI_ERR_IN_STATUS if one has failed.
  void finish() const {
    if (failed_ != 0) [[unlikely]]
      fail_some();
  }

 private:
  void set(int i, const Outcome& outcome) noexcept {
    if (outcome.error != MPI_SUCCESS) [[unlikely]]
      note_failure(i, outcome.error);
    if (statuses_ != MPI_STATUSES_IGNORE) fill(&statuses_[i], outcome, failed_ != 0);
  }
  void note_failure(int i, int error) noexcept;
  [[noreturn]] void fail_some() const;

  MPI_Status* statuses_;
  int failed_ = 0;
  int error_ = MPI_SUCCESS;        ///< of the first failure
  MPI_Comm comm_ = MPI_COMM_NULL;  ///< the same, as its sentence
  std::string why_;
};

}  // namespace weft::mpi
