// Persistent sends and receives, and the calls that start persistent requests of all kinds.
#include <memory>
#include <utility>

#include "mpi/abi/calls.hpp"
#include "mpi/messages.hpp"
#include "mpi/process/caught.hpp"
#include "mpi/requests/arrays.hpp"
#include "mpi/requests/posting.hpp"
#include "mpi/requests/send_buffer.hpp"

namespace weft::mpi {

namespace {

/// What does not change from one start to the next.
struct Envelope {
  Piece piece;
  int peer;
  int tag;
  bool real;  ///< not MPI_PROC_NULL
};

class SendAgain final : public RequestWork {
 public:
  SendAgain(const Envelope& envelope, SendMode mode) : envelope_(envelope), mode_(mode) {}
  void start(Request& request) override {
    const auto& [piece, peer, tag, real] = envelope_;
    request.transfer.outcome = kEmpty;
    if (!real) return;
    start_send(request.transfer, *request.of(), Plane::program, peer, tag, piece.buffer,
               piece.count, piece.type, mode_);
  }
  void cancel(Request& request) override { cancel_send(request.transfer); }

 private:
  const Envelope envelope_;
  const SendMode mode_;
};

class SendBufferedAgain final : public RequestWork {
 public:
  explicit SendBufferedAgain(const Envelope& envelope) : envelope_(envelope) {}
  void start(Request& request) override {
    const auto& [piece, peer, tag, real] = envelope_;
    request.transfer.outcome = kEmpty;
    if (real) send_buffered(*request.of(), piece, peer, tag);
  }

 private:
  const Envelope envelope_;
};

class ReceiveAgain final : public RequestWork {
 public:
  ReceiveAgain(const Envelope& envelope, void* buffer) : envelope_(envelope), buffer_(buffer) {}
  void start(Request& request) override {
    const auto& [piece, peer, tag, real] = envelope_;
    request.transfer.outcome = kNoProcess;
    if (!real) return;
    start_recv(request.transfer, *request.of(), Plane::program, peer, tag, buffer_, piece.count,
               piece.type);
  }
  void cancel(Request& request) override { (void)cancel_recv(request.transfer); }

 private:
  const Envelope envelope_;
  void* const buffer_;
};

MPI_Request make_persistent(Comm& comm, const Datatype& type, std::unique_ptr<RequestWork> work,
                            bool receives = false) {
  Request& request = make_request();
  keep(request, comm, type);
  request.work = work.release();
  request.persistent = true;
  request.receives = receives;
  request.active = false;
  return handle_of(request);
}

void send_init(const void* buffer, MPI_Count count, MPI_Datatype datatype, int to, int tag,
               MPI_Comm handle, SendMode mode, MPI_Request* request) {
  Comm& comm = mpi::comm(handle);
  const Piece piece{buffer, count, mpi::datatype(datatype)};
  require(request != nullptr, MPI_ERR_ARG, "no place for the request");
  const bool real = may_send(comm, piece, to, tag);
  *request = make_persistent(comm, piece.type,
                             std::make_unique<SendAgain>(Envelope{piece, to, tag, real}, mode));
}

void start(MPI_Request handle) {
  Request& started = request(handle);
  if (!started.persistent) fail(MPI_ERR_REQUEST, "starts a request that is not persistent");
  if (started.active) fail(MPI_ERR_REQUEST, "starts a request that is active");
  started.active = true;
  try {
    started.work->start(started);
  } catch (...) {  // there may be no memory
    started.active = false;
    with_caught([&](Failure failure) {
      if (failure.comm() == nullptr) failure.about(started.of());
      throw failure;
    });
  }
}

}  // namespace

namespace calls {

void Send_init(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
               MPI_Comm comm, MPI_Request* request) {
  send_init(buf, count, datatype, dest, tag, comm, SendMode::standard, request);
}

void Ssend_init(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                MPI_Comm comm, MPI_Request* request) {
  send_init(buf, count, datatype, dest, tag, comm, SendMode::synchronous, request);
}

void Rsend_init(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                MPI_Comm comm, MPI_Request* request) {
  send_init(buf, count, datatype, dest, tag, comm, SendMode::ready, request);
}

void Bsend_init(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                MPI_Comm comm, MPI_Request* request) {
  Comm& on = mpi::comm(comm);
  const Piece piece{buf, count, mpi::datatype(datatype)};
  require(request != nullptr, MPI_ERR_ARG, "no place for the request");
  const bool real = may_send(on, piece, dest, tag);
  *request = make_persistent(on, piece.type,
                             std::make_unique<SendBufferedAgain>(Envelope{piece, dest, tag, real}));
}

void Recv_init(void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
               MPI_Comm comm, MPI_Request* request) {
  Comm& on = mpi::comm(comm);
  const Piece piece{buf, count, mpi::datatype(datatype)};
  require(request != nullptr, MPI_ERR_ARG, "no place for the request");
  const bool real = may_recv(on, piece, source, tag);
  *request = make_persistent(
      on, piece.type, std::make_unique<ReceiveAgain>(Envelope{piece, source, tag, real}, buf),
      true);
}

void Start(MPI_Request* request) {
  require(request != nullptr, MPI_ERR_ARG, "no request: a null pointer");
  start(*request);
}

void Startall(int count, MPI_Request array_of_requests[]) {
  check_array(count, array_of_requests);
  for (int i = 0; i < count; ++i) start(array_of_requests[i]);
}

}  // namespace calls

}  // namespace weft::mpi
