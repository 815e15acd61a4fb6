// MPI_Barrier, MPI_Bcast, MPI_Gather(v), MPI_Scatter(v), MPI_Allgather(v), in all forms.
#include "mpi/collectives/forms.hpp"
#include "mpi/failure.hpp"

namespace weft::mpi::calls {
namespace {

Call check_Barrier(MPI_Comm comm) { return {Kind::barrier, mpi::comm(comm)}; }

Call check_Bcast(void* buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm) {
  Call call(Kind::bcast, mpi::comm(comm));
  if (set_root(call, root).takes_part) set_in(call, buffer, count, datatype);
  return call;
}

/// What a rank gives to a root: anything but MPI_IN_PLACE, unless it is the root itself.
void set_given(Call& call, const Role& role, const void* buffer, MPI_Count count,
               MPI_Datatype type) {
  require(role.gives_all || buffer != MPI_IN_PLACE, MPI_ERR_BUFFER,
          "MPI_IN_PLACE is for the root only");
  set_out(call, buffer, count, type);
}

Call check_Gather(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                  MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm) {
  Call call(Kind::gather, mpi::comm(comm));
  const Role role = set_root(call, root);
  if (!role.takes_part) return call;
  if (role.gives_all) set_in(call, recvbuf, recvcount, recvtype);
  if (!role.gives_all || !call.comm->inter) set_given(call, role, sendbuf, sendcount, sendtype);
  refuse_alias(call);
  refuse_larger(call);
  return call;
}

Call check_Gatherv(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                   Counts recvcounts, Counts displs, MPI_Datatype recvtype, int root,
                   MPI_Comm comm) {
  Call call(Kind::gatherv, mpi::comm(comm));
  const Role role = set_root(call, root);
  if (!role.takes_part) return call;
  if (role.gives_all) {
    set_in(call, recvbuf, recvcounts, displs, recvtype, call.comm->remote_size);
  }
  if (!role.gives_all || !call.comm->inter) set_given(call, role, sendbuf, sendcount, sendtype);
  refuse_alias(call);
  refuse_larger(call);
  return call;
}

/// What comes from a root; at the root itself it may be MPI_IN_PLACE.
void set_gotten(Call& call, const Role& role, void* buffer, MPI_Count count, MPI_Datatype type) {
  call.in_place = role.gives_all && is_in_place(call, buffer);
  if (!call.in_place) set_in(call, buffer, count, type);
}

Call check_Scatter(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                   MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm) {
  Call call(Kind::scatter, mpi::comm(comm));
  const Role role = set_root(call, root);
  if (!role.takes_part) return call;
  if (role.gives_all) {
    require(sendbuf != MPI_IN_PLACE, MPI_ERR_BUFFER, "MPI_IN_PLACE is for the receive buffer");
    set_out(call, sendbuf, sendcount, sendtype);
  }
  if (!role.gives_all || !call.comm->inter) set_gotten(call, role, recvbuf, recvcount, recvtype);
  refuse_alias(call);
  refuse_larger(call);
  return call;
}

Call check_Scatterv(const void* sendbuf, Counts sendcounts, Counts displs, MPI_Datatype sendtype,
                    void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root,
                    MPI_Comm comm) {
  Call call(Kind::scatterv, mpi::comm(comm));
  const Role role = set_root(call, root);
  if (!role.takes_part) return call;
  if (role.gives_all) {
    require(sendbuf != MPI_IN_PLACE, MPI_ERR_BUFFER, "MPI_IN_PLACE is for the receive buffer");
    set_out(call, sendbuf, sendcounts, displs, sendtype, call.comm->remote_size);
  }
  if (!role.gives_all || !call.comm->inter) set_gotten(call, role, recvbuf, recvcount, recvtype);
  refuse_alias(call);
  refuse_larger(call);
  return call;
}

Call check_Allgather(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                     MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm) {
  Call call(Kind::allgather, mpi::comm(comm));
  set_in(call, recvbuf, recvcount, recvtype);
  set_out(call, sendbuf, sendcount, sendtype);
  refuse_alias(call);
  refuse_larger(call);
  return call;
}

Call check_Allgatherv(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                      void* recvbuf, Counts recvcounts, Counts displs, MPI_Datatype recvtype,
                      MPI_Comm comm) {
  Call call(Kind::allgatherv, mpi::comm(comm));
  set_in(call, recvbuf, recvcounts, displs, recvtype, call.comm->remote_size);
  set_out(call, sendbuf, sendcount, sendtype);
  refuse_alias(call);
  refuse_larger(call);
  return call;
}

}  // namespace

WEFT_MPI_FORMS(Barrier, Ibarrier, (MPI_Comm comm), (comm))

WEFT_MPI_FORMS(Bcast, Ibcast,
               (void* buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm),
               (buffer, count, datatype, root, comm))

WEFT_MPI_FORMS(Gather, Igather,
               (const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm),
               (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm))

WEFT_MPI_FORMS(Gatherv, Igatherv,
               (const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                Counts recvcounts, Counts displs, MPI_Datatype recvtype, int root, MPI_Comm comm),
               (sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, comm))

WEFT_MPI_FORMS(Scatter, Iscatter,
               (const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm),
               (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm))

WEFT_MPI_FORMS(Scatterv, Iscatterv,
               (const void* sendbuf, Counts sendcounts, Counts displs, MPI_Datatype sendtype,
                void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm),
               (sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root, comm))

WEFT_MPI_FORMS(Allgather, Iallgather,
               (const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm),
               (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm))

WEFT_MPI_FORMS(Allgatherv, Iallgatherv,
               (const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                Counts recvcounts, Counts displs, MPI_Datatype recvtype, MPI_Comm comm),
               (sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm))

}  // namespace weft::mpi::calls
