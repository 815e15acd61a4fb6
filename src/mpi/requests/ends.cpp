// The ends of requests that are not plain, or that failed.
#include "mpi/requests/ends.hpp"

#include <fmt/format.h>

#include "mpi/messages.hpp"

namespace weft::mpi {

namespace {

std::string sentence(int error, const Transfer* transfer) {
  const bool named = transfer != nullptr && transfer->process.value >= 0;
  switch (error) {
    case MPI_ERR_TRUNCATE:
      if (transfer == nullptr) return "the message is longer than the receive buffer";
      return fmt::format(
          "the message of rank {} with tag {} is longer than the {} bytes of its receive",
          transfer->outcome.source, transfer->outcome.tag, transfer->capacity);
    default:
      return why_failed(error, named ? transfer->process : kAnySource);
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

/// What is told of an ended request, which must be there still. `why` is of the first failure.
Outcome told(const Request& request, const Thrown& thrown, Why& why) {
  Outcome outcome = request.transfer.outcome;
  if (thrown.error != MPI_SUCCESS) outcome.error = thrown.error;
  if (outcome.error != MPI_SUCCESS && why.text.empty()) {
    why.text =
        thrown.error != MPI_SUCCESS ? thrown.text : sentence(outcome.error, &request.transfer);
    why.comm = Held<Comm>(request.of());
  }
  return outcome;
}

}  // namespace

void fail_as(const Transfer& transfer, Comm& comm) {
  throw Failure(transfer.outcome.error, sentence(transfer.outcome.error, &transfer)).about(&comm);
}

Outcome conclude_any(Request& request, MPI_Request& handle, Why& why) {
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
  const Outcome outcome = told(request, thrown, why);
  if (request.persistent) {
    request.active = false;
  } else {
    retire(request);
    handle = MPI_REQUEST_NULL;
  }
  return outcome;
}

void report_any(Request& request, MPI_Request& handle, MPI_Status* status) {
  Why why;
  const Outcome outcome = conclude_any(request, handle, why);
  fill(status, outcome);
  if (outcome.error != MPI_SUCCESS)
    throw Failure(outcome.error, std::move(why.text)).about(why.comm.get());
}

Outcome peek(Request& request, Why& why) {
  if (request.inactive()) return kEmpty;
  Thrown thrown;
  if (request.work != nullptr && !request.constant)
    thrown.by([&] { request.work->before_report(request); });
  return told(request, thrown, why);
}

void report_peek(Request& request, MPI_Status* status) {
  Why why;
  const Outcome outcome = peek(request, why);
  fill(status, outcome);
  if (outcome.error != MPI_SUCCESS)
    throw Failure(outcome.error, std::move(why.text)).about(why.comm.get());
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
                  failed_, why_.text))
      .about(why_.comm.get())
      .because_of(error_);
}

}  // namespace weft::mpi
