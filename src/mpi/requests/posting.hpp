// Sends and receives that a request is made for.
#pragma once

#include <cstdint>

#include "mpi/messages.hpp"
#include "mpi/requests/arguments.hpp"
#include "mpi/requests/pool.hpp"

namespace weft::mpi {

/// A hold of a type that the program may free.
[[nodiscard]] inline Held<Datatype> held(const Datatype& type) noexcept {
  return Held<Datatype>(type.predefined() ? nullptr : const_cast<Datatype*>(&type));
}

/// Keeps what a pending transfer needs; the program may free type and communicator meanwhile.
inline void keep(Request& request, Comm& comm, const Datatype& type) noexcept {
  // relaxed: whoever frees the communicator does so after this call.
  request.borrowed.store(&comm, std::memory_order_relaxed);
  if (!type.predefined()) [[unlikely]]
    request.type = Held<Datatype>(const_cast<Datatype*>(&type));
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
  try {
    start_send(request.transfer, comm, Plane::program, to, tag, piece.buffer, piece.count,
               piece.type, mode);
  } catch (...) {
    pool.give_back(request);
    throw;
  }
  if (request.transfer.ended() && request.transfer.outcome.error == MPI_SUCCESS) [[likely]] {
    pool.give_back_spare(request);
    return pool.done();
  }
  request.receives = false;
  keep(request, comm, piece.type);
  return pool.issue(request);
}

/// A receive on the program's plane; its request.
inline MPI_Request post_recv(Comm& comm, void* buffer, int64_t count, const Datatype& type,
                             int from, int tag) {
  RequestPool& pool = request_pool();
  Request& request = pool.take();
  try {
    start_recv(request.transfer, comm, Plane::program, from, tag, buffer, count, type);
  } catch (...) {
    pool.give_back(request);
    throw;
  }
  request.receives = true;
  keep(request, comm, type);
  return pool.issue(request);
}

}  // namespace weft::mpi
