// Checks of collectives' arguments.
#include "mpi/collectives/arguments.hpp"

#include "mpi/failure.hpp"
#include "mpi/process.hpp"

namespace weft::mpi {
namespace {

/// Absolute addresses are described by types that do not begin at 0.
bool lacks_memory(const void* buffer, int64_t count, const Datatype& type) noexcept {
  return buffer == nullptr && count != 0 && type.size() != 0 && type.contiguous();
}

/// `place`: the block's displacement; where there is one, a null buffer may be MPI_BOTTOM.
void check_block(const void* buffer, int64_t count, const Datatype& type, int64_t place = 0) {
  if (buffer == nullptr && place != 0) count = count < 0 ? count : 0;
  if (!is_doubtful(count, type) && buffer != MPI_IN_PLACE && !lacks_memory(buffer, count, type))
      [[likely]] {
    return;
  }
  require_count(count, type);
  require(buffer != MPI_IN_PLACE, MPI_ERR_BUFFER,
          "a buffer is MPI_IN_PLACE (the address 1), which this argument may not be");
  require(!lacks_memory(buffer, count, type), MPI_ERR_BUFFER, "data at a null pointer");
}

Parts parts_of(const void* buffer, int64_t count, MPI_Datatype handle) {
  const Datatype& type = datatype(handle);
  check_block(buffer, count, type);
  return {.base = address(buffer), .count = count, .type = &type};
}

Parts parts_of(const void* buffer, Counts counts, Counts places, MPI_Datatype handle, int blocks) {
  const Datatype& type = datatype(handle);
  if (checking() && blocks > 0) {
    require(!counts.null(), MPI_ERR_ARG, "no array of counts");
    require(!places.null(), MPI_ERR_ARG, "no array of displacements");
    for (std::size_t i = 0; i < static_cast<std::size_t>(blocks); ++i) {
      check_block(buffer, counts[i], type, places[i]);
    }
  }
  return {.base = address(buffer), .type = &type, .counts = counts, .places = places};
}

void check_typed(const Parts& parts, const MPI_Datatype* handles, int blocks) {
  if (!checking() || blocks == 0) return;
  require(!parts.counts.null(), MPI_ERR_ARG, "no array of counts");
  require(!parts.places.null(), MPI_ERR_ARG, "no array of displacements");
  require(handles != nullptr, MPI_ERR_ARG, "no array of datatypes");
}

}  // namespace

Role set_root(Call& call, int root) {
  const Comm& comm = *call.comm;
  call.root = root;
  if (!comm.inter) {
    if (root < 0 || root >= comm.size()) [[unlikely]]
      fail(MPI_ERR_ROOT, "the root is no rank of the communicator");
    return {.gives_all = root == comm.rank};
  }
  if (root != MPI_ROOT && root != MPI_PROC_NULL && (root < 0 || root >= comm.remote_size)) {
    fail(MPI_ERR_ROOT, "the root is no rank of the other side, nor MPI_ROOT or MPI_PROC_NULL");
  }
  return {.gives_all = root == MPI_ROOT, .takes_part = root != MPI_PROC_NULL};
}

void check_buffer(const void* buffer, int64_t count, const Datatype& type) {
  check_block(buffer, count, type);
}

bool is_in_place(const Call& call, const void* buffer) {
  if (buffer != MPI_IN_PLACE) [[likely]]
    return false;
  if (call.comm->inter) {
    fail(MPI_ERR_BUFFER, "MPI_IN_PLACE is not allowed on inter-communicators");
  }
  return true;
}

void set_in(Call& call, const void* buffer, int64_t count, MPI_Datatype type) {
  call.in = parts_of(buffer, count, type);
}

void set_out(Call& call, const void* buffer, int64_t count, MPI_Datatype type) {
  call.in_place = is_in_place(call, buffer);
  if (!call.in_place) call.out = parts_of(buffer, count, type);
}

void set_in(Call& call, const void* buffer, Counts counts, Counts places, MPI_Datatype type,
            int blocks) {
  call.in = parts_of(buffer, counts, places, type, blocks);
}

void set_out(Call& call, const void* buffer, Counts counts, Counts places, MPI_Datatype type,
             int blocks) {
  call.in_place = is_in_place(call, buffer);
  if (!call.in_place) call.out = parts_of(buffer, counts, places, type, blocks);
}

void set_typed(Call& call, const Parts& out, const MPI_Datatype* out_types, int outs,
               const Parts& in, const MPI_Datatype* in_types, int ins) {
  call.in_place = is_in_place(call, out.base);
  if (call.in_place) outs = 0;
  call.in = in;
  if (!call.in_place) call.out = out;
  check_typed(call.out, out_types, outs);
  check_typed(call.in, in_types, ins);
  call.types.reserve(static_cast<std::size_t>(outs) + static_cast<std::size_t>(ins));
  for (int i = 0; i < outs; ++i) {
    call.types.push_back(&datatype(out_types[i]));
    check_block(out.base, out.counts[static_cast<std::size_t>(i)], *call.types.back(),
                out.places[static_cast<std::size_t>(i)]);
  }
  for (int i = 0; i < ins; ++i) {
    call.types.push_back(&datatype(in_types[i]));
    check_block(in.base, in.counts[static_cast<std::size_t>(i)], *call.types.back(),
                in.places[static_cast<std::size_t>(i)]);
  }
  // The list stays where it is when the call moves.
  call.out.types = call.types.data();
  call.in.types = call.types.data() + outs;
}

namespace {

/// Types with gaps may interlace: they are let pass.
void refuse_same(const Block& out, const Block& in) {
  if (out.at != in.at || in.at == nullptr) [[likely]]
    return;
  const bool has_data = out.type != nullptr && in.type != nullptr && out.type->contiguous() &&
                        in.type->contiguous() && out.bytes() > 0 && in.bytes() > 0;
  require(!has_data, MPI_ERR_BUFFER,
          "the send buffer is the receive buffer, too: MPI_IN_PLACE says so");
}

}  // namespace

void refuse_alias(const Call& call) {
  if (!checking() || call.in_place || call.out.type == nullptr || call.in.type == nullptr) return;
  const bool has_own = !call.comm->inter && call.neighbours == nullptr;
  const int rank = call.comm->rank;
  if (call.out.counts.null() && call.in.counts.null())
    refuse_same(call.out.whole(), call.in.whole());
  if (!has_own) return;
  switch (call.kind) {
    case Kind::gather:
    case Kind::gatherv:
    case Kind::allgather:
    case Kind::allgatherv:
      return refuse_same(call.out.whole(), call.in[rank]);
    case Kind::scatter:
    case Kind::scatterv:
      return refuse_same(call.out[rank], call.in.whole());
    default:
      return;
  }
}

void refuse_larger(const Call& call) {
  if (call.in_place || call.comm->inter) return;
  // Compared with the others' (check.cpp), it is told to all of them, before any goes on. relaxed:
  // after a death nothing is.
  if (settings().check_collectives && call.comm->size() > 1 &&
      !call.comm->member_died.load(std::memory_order_relaxed))
    return;
  const int rank = call.comm->rank;
  Block given = call.out.whole();
  Block room = call.in.whole();
  switch (call.kind) {
    case Kind::gather:
    case Kind::gatherv:
      if (rank != call.root) return;
      [[fallthrough]];
    case Kind::allgather:
    case Kind::allgatherv:
      room = call.in[rank];
      break;
    case Kind::scatter:
    case Kind::scatterv:
      if (rank != call.root) return;
      given = call.out[rank];
      break;
    default:
      given = call.out[rank];
      room = call.in[rank];
  }
  if (given.bytes() > room.bytes())
    fail(MPI_ERR_TRUNCATE, "what this rank gives itself in a collective is larger than its room");
}

void refuse_aliases(const Call& call, int blocks) {
  if (!checking() || call.in_place || call.out.base != call.in.base) [[likely]]
    return;
  for (int i = 0; i < blocks; ++i) refuse_same(call.out[i], call.in[i]);
}

void set_reduction(Call& call, const void* from, void* to, int64_t count, MPI_Datatype type,
                   MPI_Op op, bool gets) {
  call.reduction = {.op = &mpi::op(op), .type = &datatype(type), .handle = type, .count = count};
  const Datatype& elements = *call.reduction.type;
  check_op(*call.reduction.op, elements);
  if (gets) check_block(to, count, elements);
  call.in_place = is_in_place(call, from);
  if (call.in_place) {
    require(gets, MPI_ERR_BUFFER, "MPI_IN_PLACE is for those who get the result");
    from = to;
  } else {
    check_block(from, count, elements);
    require(!gets || from != to || from == nullptr || call.reduction.bytes() == 0 ||
                !elements.contiguous(),
            MPI_ERR_BUFFER, "the send buffer is the receive buffer, too: MPI_IN_PLACE says so");
  }
  call.out.base = address(from);
  call.in.base = address(gets ? to : nullptr);
  if (!call.reduction.op->predefined) {
    const auto place = reinterpret_cast<uintptr_t>(from != nullptr ? from : to);
    call.reduction.phase = static_cast<int64_t>(place % Scratch::kAlignment);
  }
}

void need_intra(const Call& call) {
  if (call.comm->inter) fail(MPI_ERR_COMM, "this collective is for intra-communicators only");
}

}  // namespace weft::mpi
