// The ends of requests that are not plain, or that failed.
#include "mpi/requests/ends.hpp"

#include <fmt/format.h>

#include "mpi/errhandler.hpp"
#include "mpi/process.hpp"

namespace weft::mpi {

namespace {

MPI_Comm handle_or_null(const Comm* comm) noexcept {
  return comm == nullptr ? MPI_COMM_NULL : comm->handle;
}

std::string sentence(int error, const Transfer* transfer) {
  const bool named = transfer != nullptr && transfer->process.value >= 0;
  switch (error) {
    case MPI_ERR_TRUNCATE:
      if (transfer == nullptr) return "the message is longer than the receive buffer";
      return fmt::format(
          "the message of rank {} with tag {} is longer than the {} bytes of its receive",
          transfer->outcome.source, transfer->outcome.tag, transfer->capacity);
    case MPI_ERR_PROC_ABORTED: {
      const std::string cause = named ? runtime().cause_of_death(transfer->process) : std::string();
      return cause.empty() ? "a peer has died" : cause;
    }
    case MPI_ERR_NO_MEM:
      return "no memory for a message";
    default:
      return error_string(error);
  }
}

/// What the program's own functions failed with (generalized requests); the first counts.
struct Thrown {
  int error = MPI_SUCCESS;
  std::string text;

  template <class Call>
  void by(Call call) {
    try {
      call();
    } catch (const Failure& failure) {
      if (error != MPI_SUCCESS) return;
      error = failure.code();
      text = failure.what();
    }
  }
};

/// What is told of an ended request. `why` and `comm` are of the first failure.
Outcome told(const Request& request, const Thrown& thrown, std::string& why, MPI_Comm& comm) {
  Outcome outcome = request.transfer.outcome;
  if (thrown.error != MPI_SUCCESS) outcome.error = thrown.error;
  if (outcome.error != MPI_SUCCESS && why.empty()) {
    why = thrown.error != MPI_SUCCESS ? thrown.text : sentence(outcome.error, &request.transfer);
    comm = handle_or_null(request.of());
  }
  return outcome;
}

}  // namespace

void fail_as(const Transfer& transfer, const Comm* comm) {
  throw Failure(transfer.outcome.error, sentence(transfer.outcome.error, &transfer))
      .about(handle_or_null(comm));
}

void fail_as(int error, const Comm* comm) {
  throw Failure(error, sentence(error, nullptr)).about(handle_or_null(comm));
}

Outcome conclude_any(Request& request, MPI_Request& handle, std::string& why, MPI_Comm& comm) {
  if (!RequestPool::is_named_by(request, handle)) {
    fail(MPI_ERR_REQUEST, "the same request twice");
  }
  if (request.constant) {
    handle = MPI_REQUEST_NULL;
    return request.transfer.outcome;
  }
  Thrown thrown;
  if (request.work != nullptr) {
    thrown.by([&] { request.work->before_report(request); });
    if (!request.persistent) thrown.by([&] { request.work->before_retire(request); });
  }
  const Outcome outcome = told(request, thrown, why, comm);
  if (request.persistent) {
    request.active = false;
  } else {
    retire(request);
    handle = MPI_REQUEST_NULL;
  }
  return outcome;
}

Outcome peek(Request& request, std::string& why, MPI_Comm& comm) {
  if (request.inactive()) return kEmpty;
  Thrown thrown;
  if (request.work != nullptr && !request.constant)
    thrown.by([&] { request.work->before_report(request); });
  return told(request, thrown, why, comm);
}

void report_peek(Request& request, MPI_Status* status) {
  std::string why;
  MPI_Comm comm = MPI_COMM_NULL;
  const Outcome outcome = peek(request, why, comm);
  fill(status, outcome);
  if (outcome.error != MPI_SUCCESS) throw Failure(outcome.error, std::move(why)).about(comm);
}

void Statuses::note_failure(int i, int error) noexcept {
  if (failed_++ != 0) return;
  error_ = error;
  if (statuses_ == MPI_STATUSES_IGNORE) return;
  for (int before = 0; before < i; ++before) statuses_[before].MPI_ERROR = MPI_SUCCESS;
}

void Statuses::fail_some() const {
  throw Failure(
      MPI_ERR_IN_STATUS,
      fmt::format("{} of the requests failed (the statuses tell which), the first one so: {}",
                  failed_, why_))
      .about(comm_)
      .because_of(error_);
}

}  // namespace weft::mpi
