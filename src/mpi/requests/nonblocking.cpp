// Nonblocking sends and receives.
#include "mpi/abi/calls.hpp"
#include "mpi/requests/posting.hpp"

namespace weft::mpi {

namespace {

[[gnu::always_inline]] inline void isend(const void* buffer, MPI_Count count, MPI_Datatype datatype,
                                         int to, int tag, MPI_Comm handle, SendMode mode,
                                         MPI_Request* request) {
  Comm& comm = mpi::comm(handle);
  const Piece piece{buffer, count, mpi::datatype(datatype)};
  require(request != nullptr, MPI_ERR_ARG, "no place for the request");
  if (!may_send(comm, piece, to, tag)) {
    *request = request_pool().done();
    return;
  }
  *request = post_send(comm, piece, to, tag, mode);
}

}  // namespace

namespace calls {

void Isend(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
           MPI_Comm comm, MPI_Request* request) {
  isend(buf, count, datatype, dest, tag, comm, SendMode::standard, request);
}

void Issend(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
            MPI_Comm comm, MPI_Request* request) {
  isend(buf, count, datatype, dest, tag, comm, SendMode::synchronous, request);
}

void Irsend(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
            MPI_Comm comm, MPI_Request* request) {
  isend(buf, count, datatype, dest, tag, comm, SendMode::ready, request);
}

void Irecv(void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
           MPI_Request* request) {
  Comm& on = mpi::comm(comm);
  const Datatype& type = mpi::datatype(datatype);
  require(request != nullptr, MPI_ERR_ARG, "no place for the request");
  if (!may_recv(on, {buf, count, type}, source, tag)) {
    *request = request_pool().done_with_no_process();
    return;
  }
  *request = post_recv(on, buf, count, type, source, tag);
}

}  // namespace calls

}  // namespace weft::mpi
