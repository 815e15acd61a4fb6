// Sends and receives that a request is made for.
#pragma once

#include <cstdint>

#include "mpi/messages.hpp"
#include "mpi/requests/arguments.hpp"
#include "mpi/requests/pool.hpp"

namespace weft::mpi {

/// A hold of a type that the program may free while something is received by it: a count that
/// threads share, up and down, but of predefined types. Sends are done with theirs once they began.
[[nodiscard]] inline Held<Datatype> held(const Datatype& type) noexcept {
  return Held<Datatype>(type.predefined() ? nullptr : const_cast<Datatype*>(&type));
}

/// Keeps what a transfer needs; the program may free type and communicator meanwhile. Before the
/// transfer begins: whoever is told of it may free them.
inline void keep(Request& request, Comm& comm) noexcept {
  // relaxed: whoever frees the communicator has been told by what comes after this.
  request.borrowed.store(&comm, std::memory_order_relaxed);
}
inline void keep(Request& request, Comm& comm, const Datatype& type) noexcept {
  keep(request, comm);
  if (!type.predefined()) [[unlikely]]
    request.type = Held<Datatype>(const_cast<Datatype*>(&type));
}
/// The opposite, of a request that gets no handle.
inline void forget(Request& request) noexcept {
  request.type = Held<Datatype>();
  // release: as in RequestPool::end_handle.
  request.borrowed.store(nullptr, std::memory_order_release);
}

/// A send on the program's plane; its request. What goes at once costs no record, nor a look at
/// one: its request is everybody's.
inline MPI_Request post_send(Comm& comm, const Piece& piece, int to, int tag, SendMode mode) {
  RequestPool& pool = request_pool();
  if (mode != SendMode::synchronous &&
      try_send(comm, Plane::program, to, tag, piece.buffer, piece.count, piece.type)) [[likely]] {
    return pool.done();
  }
  Request& request = pool.take_spare();
  keep(request, comm);
  try {
    start_send(request.transfer, comm, Plane::program, to, tag, piece.buffer, piece.count,
               piece.type, mode);
  } catch (...) {
    forget(request);
    pool.give_back(request);
    throw;
  }
  if (request.transfer.ended() && request.transfer.outcome.error == MPI_SUCCESS) [[likely]] {
    forget(request);
    pool.give_back_spare(request);
    return pool.done();
  }
  request.receives = false;
  return pool.issue(request);
}

/// A receive on the program's plane; its request.
inline MPI_Request post_recv(Comm& comm, void* buffer, int64_t count, const Datatype& type,
                             int from, int tag) {
  RequestPool& pool = request_pool();
  Request& request = pool.take();
  keep(request, comm, type);
  try {
    start_recv(request.transfer, comm, Plane::program, from, tag, buffer, count, type);
  } catch (...) {
    forget(request);
    pool.give_back(request);
    throw;
  }
  request.receives = true;
  return pool.issue(request);
}

}  // namespace weft::mpi
