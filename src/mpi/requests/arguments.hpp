// The checks of point-to-point arguments: one test when all is well, sentences when not.
#pragma once

#include <climits>
#include <cstdint>

#include "mpi/comm.hpp"
#include "mpi/datatype.hpp"

namespace weft::mpi {

/// What a call sends or receives.
struct Piece {
  const void* buffer;
  int64_t count;
  const Datatype& type;
};

/// Tells the first thing that is wrong, if arguments are checked. False: nothing is, but the peer
/// is MPI_PROC_NULL.
bool judge_send(const Comm& comm, const Piece& piece, int to, int tag);
bool judge_recv(const Comm& comm, const Piece& piece, int from, int tag);
/// For what names no buffer (probes).
bool judge_match(const Comm& comm, int from, int tag);

/// Data at the null pointer: absolute addresses (MPI_BOTTOM) are described by types with gaps.
[[nodiscard]] inline bool lacks_buffer(const Piece& piece) noexcept {
  return piece.buffer == nullptr && piece.count != 0 && piece.type.contiguous() &&
         piece.type.size() != 0;
}

/// Checks the arguments of a send. False: to MPI_PROC_NULL. Throws Failure.
inline bool may_send(const Comm& comm, const Piece& piece, int to, int tag) {
  if (static_cast<unsigned>(to) >= static_cast<unsigned>(comm.remote_size) || tag < 0 ||
      is_doubtful(piece.count, piece.type) || lacks_buffer(piece)) [[unlikely]] {
    return judge_send(comm, piece, to, tag);
  }
  return true;
}

/// Whether receives may name this rank or tag; MPI_PROC_NULL is no rank.
[[nodiscard]] inline bool is_source(const Comm& comm, int from) noexcept {
  static_assert(MPI_ANY_SOURCE == -1);
  return static_cast<unsigned>(from + 1) <= static_cast<unsigned>(comm.remote_size);
}
[[nodiscard]] inline bool is_recv_tag(int tag) noexcept { return tag >= 0 || tag == MPI_ANY_TAG; }

/// One rank, one tag; anything else has to be looked at.
[[nodiscard]] inline bool is_exact(const Comm& comm, int from, int tag) noexcept {
  return static_cast<unsigned>(from) < static_cast<unsigned>(comm.remote_size) && tag >= 0;
}

/// Checks the arguments of a receive. False: from MPI_PROC_NULL. Throws Failure.
inline bool may_recv(const Comm& comm, const Piece& piece, int from, int tag) {
  if (!is_exact(comm, from, tag) || is_doubtful(piece.count, piece.type) || lacks_buffer(piece))
      [[unlikely]] {
    return judge_recv(comm, piece, from, tag);
  }
  return true;
}

/// Checks the arguments of a probe. False: of MPI_PROC_NULL. Throws Failure.
inline bool may_match(const Comm& comm, int from, int tag) {
  if (!is_exact(comm, from, tag)) [[unlikely]]
    return judge_match(comm, from, tag);
  return true;
}

}  // namespace weft::mpi
