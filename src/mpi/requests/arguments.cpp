// Which argument of a point-to-point call is wrong.
#include "mpi/requests/arguments.hpp"

#include <fmt/format.h>

#include <string>

namespace weft::mpi {

namespace {

void judge_piece(const Piece& piece) {
  require_count(piece.count, piece.type);
  if (lacks_buffer(piece)) {
    fail(MPI_ERR_BUFFER,
         fmt::format("the buffer is a null pointer, but there are {} elements", piece.count));
  }
}

[[noreturn]] void refuse_rank(const Comm& comm, int rank, const char* what) {
  fail(MPI_ERR_RANK, fmt::format("{} {}: the {}group has ranks 0 to {}", what, rank,
                                 comm.inter ? "remote " : "", comm.remote_size - 1));
}

/// The program asserted by an info key that it would not.
[[noreturn]] void refuse_wildcard(int code, const char* wildcard, const char* key) {
  fail(code, fmt::format("{} on a communicator for which {} was asserted", wildcard, key));
}

}  // namespace

bool judge_send(const Comm& comm, const Piece& piece, int to, int tag) {
  if (checking()) {
    judge_piece(piece);
    if (tag < 0) {
      fail(MPI_ERR_TAG, fmt::format("tag {}: sends have tags from 0 to MPI_TAG_UB{}", tag,
                                    tag == MPI_ANY_TAG ? " (MPI_ANY_TAG is for receives)" : ""));
    }
    if ((to < 0 || to >= comm.remote_size) && to != MPI_PROC_NULL) {
      refuse_rank(comm, to, "destination");
    }
  }
  return to != MPI_PROC_NULL;
}

bool judge_match(const Comm& comm, int from, int tag) {
  if (checking()) {
    if (!is_recv_tag(tag)) {
      fail(MPI_ERR_TAG, fmt::format("tag {}: tags are 0 to MPI_TAG_UB, or MPI_ANY_TAG", tag));
    }
    if (!is_source(comm, from) && from != MPI_PROC_NULL) refuse_rank(comm, from, "source");
    if (from == MPI_ANY_SOURCE && comm.hints.no_any_source.load(std::memory_order_relaxed)) {
      refuse_wildcard(MPI_ERR_RANK, "MPI_ANY_SOURCE", "mpi_assert_no_any_source");
    }
    if (tag == MPI_ANY_TAG && comm.hints.no_any_tag.load(std::memory_order_relaxed)) {
      refuse_wildcard(MPI_ERR_TAG, "MPI_ANY_TAG", "mpi_assert_no_any_tag");
    }
  }
  return from != MPI_PROC_NULL;
}

bool judge_recv(const Comm& comm, const Piece& piece, int from, int tag) {
  if (checking()) judge_piece(piece);
  return judge_match(comm, from, tag);
}

}  // namespace weft::mpi
