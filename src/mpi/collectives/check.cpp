// mpi.check_collectives: before each collective all ranks tell each other what they call.
#include <cstdint>
#include <string>
#include <vector>

#include "mpi/collectives.hpp"
#include "mpi/collectives/algorithms.hpp"
#include "mpi/collectives/call.hpp"

namespace weft::mpi {
namespace {

/// What must be the same on all ranks, as far as each knows it. Travels as bytes.
struct Signature {
  Kind kind = Kind::barrier;
  CallForm form = CallForm::blocking;
  int32_t root = -1;   ///< -1: it has none
  int64_t bytes = -1;  ///< -1: they may differ
  int32_t op = 0;      ///< predefined operations: their number
  int32_t has_op = 0;
};

bool is_rooted(Kind kind) noexcept {
  switch (kind) {
    case Kind::bcast:
    case Kind::gather:
    case Kind::gatherv:
    case Kind::scatter:
    case Kind::scatterv:
    case Kind::reduce:
      return true;
    default:
      return false;
  }
}

int64_t bytes_of(const Call& call) {
  switch (call.kind) {
    case Kind::bcast:
      return call.in.whole().bytes();
    case Kind::gather:
      return call.in_place ? call.in.whole().bytes() : call.out.whole().bytes();
    case Kind::scatter:
      return call.root == call.comm->rank ? call.out.whole().bytes() : call.in.whole().bytes();
    case Kind::allgather:
    case Kind::alltoall:
      return call.in.whole().bytes();
    case Kind::reduce:
    case Kind::allreduce:
    case Kind::reduce_scatter:
    case Kind::reduce_scatter_block:
    case Kind::scan:
    case Kind::exscan:
      return call.reduction.bytes();
    default:
      return -1;
  }
}

Signature signature_of(const Call& call) {
  Signature mine{.kind = call.kind, .form = call.form};
  // Roots and sizes of the two sides of an inter-communicator differ, and some ranks' arguments do
  // not count.
  if (call.comm->inter) return mine;
  if (call.reduction.op != nullptr) {
    mine.has_op = 1;
    mine.op = call.reduction.op->predefined ? call.reduction.op->number : 0;
  }
  if (is_rooted(call.kind)) mine.root = call.root;
  mine.bytes = bytes_of(call);
  return mine;
}

std::string describe(const char* whose, int rank, const Signature& call) {
  static constexpr const char* kForms[] = {"", ", nonblocking", ", persistent"};
  std::string text = whose + std::to_string(rank) + " called " + name_of(call.kind);
  std::string details;
  if (call.root >= 0) details += ", root " + std::to_string(call.root);
  if (call.bytes >= 0) details += ", " + std::to_string(call.bytes) + " bytes";
  if (call.op != 0) details += ", operation " + std::to_string(call.op);
  details += kForms[static_cast<std::size_t>(call.form)];
  if (!details.empty()) text += " (" + details.substr(2) + ")";
  return text;
}

/// The error class of a difference; MPI_SUCCESS: there is none.
int difference(const Signature& a, const Signature& b) noexcept {
  if (a.kind != b.kind || a.form != b.form) return MPI_ERR_OTHER;
  if (a.root != b.root) return MPI_ERR_ROOT;
  if (a.has_op != b.has_op || a.op != b.op) return MPI_ERR_OP;
  return a.bytes != b.bytes ? MPI_ERR_COUNT : MPI_SUCCESS;
}

void compare(const Comm& comm, const Signature& first, const char* whose, int rank,
             const Signature& other) {
  // relaxed: it was this schedule's last step that would have set it.
  if (comm.member_died.load(std::memory_order_relaxed)) return;  // nothing to go by
  const int error = difference(first, other);
  if (error == MPI_SUCCESS) return;
  fail(error, "collectives that do not match: " + describe("rank ", 0, first) + ", but " +
                  describe(whose, rank, other));
}

/// The other side's first signature, at everybody.
Schedule swap_signatures(const Call& call, const Signature& mine, Signature& theirs) {
  Comm& ours = *call.comm->local_comm;
  if (call.comm->rank == 0) {
    const Team other = other_side(*call.comm, call.check_tag);
    Step<2> step;
    step.recv(other, 0, bytes_at(&theirs, sizeof theirs));
    step.send(other, 0, bytes_at(&mine, sizeof mine));
    co_await step;
  }
  const Schedule spread = broadcast(ours, call.local_check_tag, &theirs, sizeof theirs, 0);
  co_await part(spread);
}

}  // namespace

Schedule checked_schedule_of(const Call& call) {
  Comm& comm = call.comm->inter ? *call.comm->local_comm : *call.comm;
  const Signature mine = signature_of(call);
  std::vector<Signature> all(static_cast<std::size_t>(comm.size()));
  const int tag = call.comm->inter ? call.local_check_tag : call.check_tag;
  const Schedule tell = all_gather(comm, tag, &mine, sizeof mine, all.data());
  co_await part(tell);
  for (int rank = 1; rank < comm.size(); ++rank) {
    compare(comm, all[0], "rank ", rank, all[static_cast<std::size_t>(rank)]);
  }
  if (call.comm->inter) {
    Signature theirs;
    const Schedule across = swap_signatures(call, mine, theirs);
    co_await part(across);
    compare(*call.comm, all[0], "the other side's rank ", 0, theirs);
  }
  const Schedule steps = schedule_of(call);
  co_await part(steps);
}

}  // namespace weft::mpi
