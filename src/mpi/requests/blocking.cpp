// Blocking sends and receives, and both at once.
#include <cstddef>
#include <memory>

#include "mpi/abi/calls.hpp"
#include "mpi/messages.hpp"
#include "mpi/messages/under_way.hpp"
#include "mpi/requests/arguments.hpp"
#include "mpi/requests/ends.hpp"
#include "mpi/requests/packed_copy.hpp"
#include "mpi/requests/posting.hpp"
#include "weft/comm/endpoint.hpp"

namespace weft::mpi {

namespace {

inline void send(const void* buffer, MPI_Count count, MPI_Datatype datatype, int to, int tag,
                 MPI_Comm handle, SendMode mode) {
  Comm& comm = mpi::comm(handle);
  const Datatype& type = mpi::datatype(datatype);
  if (!may_send(comm, {buffer, count, type}, to, tag)) return;
  send_now(comm, Plane::program, to, tag, buffer, count, type, mode);
}

/// A receive that is posted while this exists: taken back, or ended, before its record goes.
class Posted {
 public:
  Posted() = default;
  Posted(const Posted&) = delete;
  Posted& operator=(const Posted&) = delete;
  ~Posted() {
    if (transfer.ended() || cancel_recv(transfer)) return;
    wait(transfer);
  }
  alignas(base::kCacheLine) Transfer transfer;  // in few lines: tasks converse by thousands
};

/// Sends and receives, the receive being posted first. Either piece may be with MPI_PROC_NULL.
void exchange(Comm& comm, const Piece& out, int to, int send_tag, bool sends, void* buffer,
              const Piece& in, int from, int recv_tag, bool receives, MPI_Status* status) {
  // Before both: who is told of either may know of the call.
  const UnderWay call(comm);
  const Held<Datatype> kept = receives ? held(in.type) : Held<Datatype>();
  Posted receive;
  if (receives) {
    start_recv(receive.transfer, comm, Plane::program, from, recv_tag, buffer, in.count, in.type);
  }
  if (sends) {
    const bool is_long =
        out.count * out.type.size() >= static_cast<int64_t>(Endpoint::kLeastFollowed);
    send_now(comm, Plane::program, to, send_tag, out.buffer, out.count, out.type,
             receives && is_long ? SendMode::exchange : SendMode::standard);
  }
  if (!receives) {
    fill(status, kNoProcess);
    return;
  }
  wait(receive.transfer);
  report(receive.transfer, comm, status);
}

}  // namespace

namespace calls {

void Send(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
          MPI_Comm comm) {
  send(buf, count, datatype, dest, tag, comm, SendMode::standard);
}

void Ssend(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
           MPI_Comm comm) {
  send(buf, count, datatype, dest, tag, comm, SendMode::synchronous);
}

void Rsend(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
           MPI_Comm comm) {
  send(buf, count, datatype, dest, tag, comm, SendMode::ready);
}

void Recv(void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
          MPI_Status* status) {
  Comm& on = mpi::comm(comm);
  const Datatype& type = mpi::datatype(datatype);
  if (!may_recv(on, {buf, count, type}, source, tag)) {
    fill(status, kNoProcess);
    return;
  }
  const UnderWay call(on);  // before it is posted: who is told that it was matched knows of it
  const Held<Datatype> kept = held(type);
  alignas(base::kCacheLine) Transfer transfer;  // in few lines: tasks converse by thousands
  start_recv(transfer, on, Plane::program, source, tag, buf, count, type);
  wait(transfer);
  report(transfer, on, status);
}

void Sendrecv(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, int dest,
              int sendtag, void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int source,
              int recvtag, MPI_Comm comm, MPI_Status* status) {
  Comm& on = mpi::comm(comm);
  const Piece out{sendbuf, sendcount, mpi::datatype(sendtype)};
  const Piece in{recvbuf, recvcount, mpi::datatype(recvtype)};
  const bool sends = may_send(on, out, dest, sendtag);
  const bool receives = may_recv(on, in, source, recvtag);
  exchange(on, out, dest, sendtag, sends, recvbuf, in, source, recvtag, receives, status);
}

void Sendrecv_replace(void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int sendtag,
                      int source, int recvtag, MPI_Comm comm, MPI_Status* status) {
  Comm& on = mpi::comm(comm);
  const Piece piece{buf, count, mpi::datatype(datatype)};
  const bool sends = may_send(on, piece, dest, sendtag);
  const bool receives = may_recv(on, piece, source, recvtag);
  const PackedCopy copy(sends ? piece : Piece{buf, 0, piece.type});
  exchange(on, copy.piece(), dest, sendtag, sends, buf, piece, source, recvtag, receives, status);
}

}  // namespace calls

}  // namespace weft::mpi
