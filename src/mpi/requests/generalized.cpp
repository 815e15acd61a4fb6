// Generalized requests: operations of the program's own, waited for like the library's.
#include "mpi/abi/calls.hpp"
#include "mpi/requests/pool.hpp"

namespace weft::mpi {

namespace {

class Generalized final : public RequestWork, private Waiter {
 public:
  Generalized(MPI_Grequest_query_function* query_fn, MPI_Grequest_free_function* free_fn,
              MPI_Grequest_cancel_function* cancel_fn, void* state) noexcept
      : query_(query_fn), free_(free_fn), cancel_(cancel_fn), state_(state) {}

  void before_report(Request& request) override {
    if (query_ == nullptr) return;
    MPI_Status status{};
    fill(&status, kEmpty);
    const int code = query_(state_, &status);
    request.transfer.outcome = {.source = status.MPI_SOURCE,
                                .tag = status.MPI_TAG,
                                .error = MPI_SUCCESS,
                                .cancelled = status.MPI_internal[2] != 0,
                                .bytes = bytes_of(status)};
    if (code != MPI_SUCCESS) {
      fail(code, "the query function of a generalized request answered an error");
    }
  }
  void before_retire(Request& request) override {
    (void)request;
    const int code = free_ == nullptr ? MPI_SUCCESS : free_(state_);
    if (code != MPI_SUCCESS) {
      fail(code, "the free function of a generalized request answered an error");
    }
  }
  void cancel(Request& request) override {
    const int code =
        cancel_ == nullptr ? MPI_SUCCESS : cancel_(state_, request.transfer.ended() ? 1 : 0);
    if (code != MPI_SUCCESS) {
      fail(code, "the cancel function of a generalized request answered an error");
    }
  }
  bool detach(Request& request) override {
    if (!request.transfer.set_waiter(*this)) on_end(request.transfer);
    return true;
  }

 private:
  /// Freed by the program, and complete: by MPI_Grequest_complete, or MPI_Request_free after it.
  void on_end(Transfer& transfer) noexcept override {
    if (free_ != nullptr) (void)free_(state_);  // no call is left that could report its error
    retire(request_of(transfer));
  }

  MPI_Grequest_query_function* const query_;
  MPI_Grequest_free_function* const free_;
  MPI_Grequest_cancel_function* const cancel_;
  void* const state_;
};

}  // namespace

namespace calls {

void Grequest_start(MPI_Grequest_query_function* query_fn, MPI_Grequest_free_function* free_fn,
                    MPI_Grequest_cancel_function* cancel_fn, void* extra_state,
                    MPI_Request* request) {
  require(request != nullptr, MPI_ERR_ARG, "no place for the request");
  Request& made = make_request();
  made.work = new Generalized(query_fn, free_fn, cancel_fn, extra_state);
  // relaxed: whoever completes it got the handle from this thread.
  made.transfer.state.store(Transfer::kPending, std::memory_order_relaxed);
  *request = handle_of(made);
}

void Grequest_complete(MPI_Request request) {
  Request& complete = mpi::request(request);
  if (dynamic_cast<Generalized*>(complete.work) == nullptr) {
    fail(MPI_ERR_REQUEST, "completes a request that is not a generalized one");
  }
  if (complete.transfer.ended()) fail(MPI_ERR_REQUEST, "completes a generalized request twice");
  complete.transfer.end();
}

}  // namespace calls

}  // namespace weft::mpi
