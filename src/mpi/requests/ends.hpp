// How the ends of transfers and requests are told: statuses and failures.
#pragma once

#include <string>

#include "mpi/request.hpp"
#include "mpi/requests/pool.hpp"
#include "mpi/status.hpp"

namespace weft::mpi {

/// Throws the failure that `transfer` ended with.
[[noreturn]] void fail_as(const Transfer& transfer, Comm& comm);

/// Reports the end of a blocking transfer.
inline void report(const Transfer& transfer, Comm& comm, MPI_Status* status) {
  fill(status, transfer.outcome);
  if (transfer.outcome.error != MPI_SUCCESS) [[unlikely]]
    fail_as(transfer, comm);
}

/// Of a request that failed: a sentence, and its communicator, which may have been freed.
struct Why {
  std::string text;
  Held<Comm> comm;
};

/// The general way to conclude.
Outcome conclude_any(Request& request, MPI_Request& handle, Why& why);

/// Whether it is plain, went well, and has not been concluded under a copy of the handle.
[[nodiscard]] inline bool is_plain_end(const Request& request, MPI_Request handle) noexcept {
  return request.work == nullptr && request.transfer.outcome.error == MPI_SUCCESS &&
         RequestPool::is_named_by(request, handle);
}
/// Concludes such a one.
inline Outcome conclude_plain(Request& request, MPI_Request& handle) noexcept {
  const Outcome outcome = request.transfer.outcome;
  request_pool().retire(request);
  handle = MPI_REQUEST_NULL;
  return outcome;
}

/// What one of several requests that have ended came to. A plain one ends, `handle` becomes null; a
/// persistent one becomes inactive. Throws MPI_ERR_REQUEST if the request has been concluded under
/// a copy of the handle. The callers' ways to deal with errors differ: they look at `error`.
inline Outcome conclude(Request& request, MPI_Request& handle, RequestPool::Retirements& over,
                        Why& why) {
  if (!is_plain_end(request, handle)) [[unlikely]] {
    over.give_back();
    return conclude_any(request, handle, why);
  }
  const Outcome outcome = request.transfer.outcome;
  over.add(request);
  handle = MPI_REQUEST_NULL;
  return outcome;
}

/// What a wait would report now of a request that has ended, or is inactive; it stays as it is.
Outcome peek(Request& request, Why& why);
/// The same for one request, as report_end.
void report_peek(Request& request, MPI_Status* status);

/// The general way of report_end.
void report_any(Request& request, MPI_Request& handle, MPI_Status* status);
/// One request's end, for calls that return one status.
inline void report_end(Request& request, MPI_Request& handle, MPI_Status* status) {
  if (is_plain_end(request, handle)) [[likely]] {
    fill(status, conclude_plain(request, handle));
  } else {
    report_any(request, handle, status);
  }
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
  void conclude_into(int i, Request& request, MPI_Request& handle, RequestPool::Retirements& over) {
    set(i, conclude(request, handle, over, why_));
  }
  /// The same, and the request stays as it is.
  void peek_into(int i, Request& request) { set(i, peek(request, why_)); }
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
  int error_ = MPI_SUCCESS;  ///< of the first failure
  Why why_;                  ///< the same
};

}  // namespace weft::mpi
