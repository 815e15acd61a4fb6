// MPI_Reduce, MPI_Allreduce, MPI_Reduce_scatter(_block), MPI_Scan, MPI_Exscan, in all forms.
#include "mpi/collectives/forms.hpp"
#include "mpi/failure.hpp"

namespace weft::mpi::calls {
namespace {

Call check_Reduce(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
                  MPI_Op op, int root, MPI_Comm comm) {
  Call call(Kind::reduce, mpi::comm(comm));
  const Role role = set_root(call, root);
  if (!role.takes_part) return call;
  // On an inter-communicator the root gives nothing: its buffer for that does not count.
  const bool gets_only = role.gives_all && call.comm->inter;
  set_reduction(call, gets_only ? nullptr : sendbuf, recvbuf, gets_only ? 0 : count, datatype, op,
                role.gives_all);
  if (gets_only) {
    check_buffer(recvbuf, count, *call.reduction.type);
    call.reduction.count = count;
  }
  return call;
}

Call check_Allreduce(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
                     MPI_Op op, MPI_Comm comm) {
  Call call(Kind::allreduce, mpi::comm(comm));
  set_reduction(call, sendbuf, recvbuf, count, datatype, op, true);
  return call;
}

Call check_Reduce_scatter(const void* sendbuf, void* recvbuf, Counts recvcounts,
                          MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
  Call call(Kind::reduce_scatter, mpi::comm(comm));
  require(!recvcounts.null(), MPI_ERR_ARG, "no array of counts");
  int64_t sum = 0;
  for (int i = 0; i < call.comm->size(); ++i) {
    const int64_t count = recvcounts[static_cast<std::size_t>(i)];
    require(count >= 0 && count <= kLongestMessage, MPI_ERR_COUNT,
            "a negative count, or too large");
    sum += count;
  }
  const bool gets = recvcounts[static_cast<std::size_t>(call.comm->rank)] != 0;
  set_reduction(call, sendbuf, recvbuf, sum, datatype, op, gets || sendbuf == MPI_IN_PLACE);
  call.in.counts = recvcounts;
  return call;
}

Call check_Reduce_scatter_block(const void* sendbuf, void* recvbuf, MPI_Count recvcount,
                                MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
  Call call(Kind::reduce_scatter_block, mpi::comm(comm));
  // All ranks' together must not pass for fewer.
  require(recvcount >= 0 && recvcount <= kLongestMessage, MPI_ERR_COUNT,
          "a negative count, or too large");
  set_reduction(call, sendbuf, recvbuf, recvcount * call.comm->size(), datatype, op, true);
  call.in.count = recvcount;
  return call;
}

Call check_Scan(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
                MPI_Op op, MPI_Comm comm) {
  Call call(Kind::scan, mpi::comm(comm));
  need_intra(call);
  set_reduction(call, sendbuf, recvbuf, count, datatype, op, true);
  return call;
}

Call check_Exscan(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
                  MPI_Op op, MPI_Comm comm) {
  Call call(Kind::exscan, mpi::comm(comm));
  need_intra(call);
  // Rank 0 gets nothing: its receive buffer counts only if it is what it gives.
  // What is wrong on the others is wrong there, too, lest they wait for it.
  const bool gets = call.comm->rank != 0 || sendbuf == MPI_IN_PLACE || sendbuf == recvbuf;
  set_reduction(call, sendbuf, recvbuf, count, datatype, op, gets);
  return call;
}

}  // namespace

WEFT_MPI_FORMS(Reduce, Ireduce,
               (const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
                MPI_Op op, int root, MPI_Comm comm),
               (sendbuf, recvbuf, count, datatype, op, root, comm))

WEFT_MPI_FORMS(Reduce_scatter, Ireduce_scatter,
               (const void* sendbuf, void* recvbuf, Counts recvcounts, MPI_Datatype datatype,
                MPI_Op op, MPI_Comm comm),
               (sendbuf, recvbuf, recvcounts, datatype, op, comm))

#define WEFT_MPI_PARAMETERS                                                               \
  (const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op, \
   MPI_Comm comm)
#define WEFT_MPI_ARGUMENTS (sendbuf, recvbuf, count, datatype, op, comm)
WEFT_MPI_FORMS(Allreduce, Iallreduce, WEFT_MPI_PARAMETERS, WEFT_MPI_ARGUMENTS)
WEFT_MPI_FORMS(Reduce_scatter_block, Ireduce_scatter_block, WEFT_MPI_PARAMETERS, WEFT_MPI_ARGUMENTS)
WEFT_MPI_FORMS(Scan, Iscan, WEFT_MPI_PARAMETERS, WEFT_MPI_ARGUMENTS)
WEFT_MPI_FORMS(Exscan, Iexscan, WEFT_MPI_PARAMETERS, WEFT_MPI_ARGUMENTS)
#undef WEFT_MPI_PARAMETERS
#undef WEFT_MPI_ARGUMENTS

}  // namespace weft::mpi::calls
