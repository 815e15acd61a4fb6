// Collectives of inter-communicators: combined or gathered inside a group, across between ranks 0,
// and spread inside the other group.
#include <vector>

#include "mpi/collectives/algorithms.hpp"
#include "mpi/collectives/call.hpp"

namespace weft::mpi {
namespace {

/// What one of the two knows of dead members the other is told, too.
void pass_on(const Comm& from, Comm& to) noexcept {
  // relaxed: as in Posts.
  if (from.member_died.load(std::memory_order_relaxed)) [[unlikely]]
    to.member_died.store(true, std::memory_order_relaxed);
}
/// The local group, as a team of its own communicator. To be asked for anew before each use.
Team our_side(const Call& call) noexcept {
  pass_on(*call.comm, *call.comm->local_comm);
  return everybody(*call.comm->local_comm, call.local_tag);
}
const NodeMap* our_levels(const Call& call) { return node_levels(*call.comm->local_comm); }
Team their_side(const Call& call) noexcept {
  pass_on(*call.comm->local_comm, *call.comm);
  return other_side(*call.comm, call.tag);
}
bool leads(const Call& call) noexcept { return call.comm->rank == 0; }

Schedule inter_barrier(const Call& call) {
  const Schedule all_here = barrier(our_side(call), our_levels(call));
  co_await part(all_here);
  std::byte go{};
  if (leads(call)) {
    const Team theirs = their_side(call);
    Step<2> step;
    step.recv_signal(theirs, 0);
    step.send_signal(theirs, 0);
    co_await step;
  }
  const Schedule tell = broadcast(our_side(call), our_levels(call), bytes_at(&go, 1), 0);
  co_await part(tell);
}

Schedule inter_bcast(const Call& call) {
  const Block data = call.in.whole();
  Step<1> step;
  if (call.root == MPI_ROOT) {
    step.send(their_side(call), 0, data);
    co_await step;
  } else if (call.root != MPI_PROC_NULL) {
    if (leads(call)) step.recv(their_side(call), call.root, data);
    co_await step;
    const Schedule spread = broadcast(our_side(call), our_levels(call), data, 0);
    co_await part(spread);
  }
}

Schedule inter_gather(const Call& call) {
  const Team theirs = their_side(call);
  Step<16> step;
  if (call.root == MPI_ROOT) {
    for (int i = 0; i < theirs.size; ++i) {
      if (step.full()) co_await step;
      step.recv(theirs, i, call.in[i]);
    }
  } else if (call.root != MPI_PROC_NULL) {
    step.send(theirs, call.root, call.out.whole());
  }
  co_await step;
}

Schedule inter_scatter(const Call& call) {
  const Team theirs = their_side(call);
  Step<16> step;
  if (call.root == MPI_ROOT) {
    for (int i = 0; i < theirs.size; ++i) {
      if (step.full()) co_await step;
      step.send(theirs, i, call.out[i]);
    }
  } else if (call.root != MPI_PROC_NULL) {
    step.recv(theirs, call.root, call.in.whole());
  }
  co_await step;
}

/// Everybody's block to the other side's rank 0, which spreads them all in packed form.
Schedule inter_allgather(const Call& call) {
  const Team theirs = their_side(call);
  int64_t bytes = 0;
  for (int i = 0; i < theirs.size; ++i) bytes += call.in[i].bytes();
  Scratch room;
  std::byte* all = room.bytes(bytes);
  Step<16> step;
  // First, so that it is posted when the other side's rank 0 waits for a portion with it.
  step.send(theirs, 0, call.out.whole());
  if (leads(call)) {
    std::byte* at = all;
    for (int i = 0; i < theirs.size; ++i) {
      if (step.full()) co_await step;
      step.recv(theirs, i, bytes_at(at, call.in[i].bytes()));
      at += call.in[i].bytes();
    }
  }
  co_await step;
  const Schedule spread = broadcast(our_side(call), our_levels(call), bytes_at(all, bytes), 0);
  co_await part(spread);
  for (int i = 0; i < theirs.size; ++i) {
    const Block to = call.in[i];
    copy(bytes_at(all, to.bytes()), to);
    all += to.bytes();
  }
}

/// The root gets what the other side combined.
Schedule inter_reduce(const Call& call) {
  const Reduction& reduction = call.reduction;
  Step<1> step;
  if (call.root == MPI_ROOT) {
    step.recv(their_side(call), 0, reduction.whole(call.in.base));
    co_await step;
  } else if (call.root != MPI_PROC_NULL) {
    Scratch room;
    std::byte* combined =
        leads(call) ? room.elements(reduction.count, *reduction.type, reduction.phase) : nullptr;
    const Schedule up =
        reduce(our_side(call), our_levels(call), reduction, call.out.base, combined, 0);
    co_await part(up);
    if (leads(call)) step.send(their_side(call), call.root, reduction.whole(combined));
    co_await step;
  }
}

/// What this side combines to, at its rank 0 in packed form: element by element, since all of a
/// vector may overlap itself.
Schedule combine_packed(const Call& call, std::byte* packed) {
  Reduction one = call.reduction;
  one.count = 1;
  Scratch room;
  std::byte* const combined = leads(call) ? room.elements(1, *one.type, one.phase) : nullptr;
  for (int64_t i = 0; i < call.reduction.count; ++i) {
    const Schedule up =
        reduce(our_side(call), our_levels(call), one, one.element(call.out.base, i), combined, 0);
    co_await part(up);
    if (leads(call)) copy(one.whole(combined), bytes_at(packed + i * one.bytes(), one.bytes()));
  }
}

/// Both sides' ranks 0 change what their sides combined to; `theirs` needs room there only.
Schedule swap_combined(const Call& call, void* theirs) {
  const Reduction& reduction = call.reduction;
  Scratch room;
  std::byte* ours =
      leads(call) ? room.elements(reduction.count, *reduction.type, reduction.phase) : nullptr;
  const Schedule up = reduce(our_side(call), our_levels(call), reduction, call.out.base, ours, 0);
  co_await part(up);
  if (!leads(call)) co_return;
  Step<2> step;
  const Team other = their_side(call);
  step.recv(other, 0, reduction.whole(theirs));
  step.send(other, 0, reduction.whole(ours));
  co_await step;
}

Schedule inter_allreduce(const Call& call) {
  const Schedule across = swap_combined(call, call.in.base);
  co_await part(across);
  const Schedule spread =
      broadcast(our_side(call), our_levels(call), call.reduction.whole(call.in.base), 0);
  co_await part(spread);
}

/// Where each rank's part begins, in elements.
std::vector<MPI_Count> begins_of(const Call& call) {
  std::vector<MPI_Count> begins;
  int64_t sum = 0;
  for (int i = 0; i < call.comm->size(); ++i) {
    begins.push_back(sum);
    sum += call.in.counts.null() ? call.in.count : call.in.counts[static_cast<std::size_t>(i)];
  }
  begins.push_back(sum);
  return begins;
}

/// What interlaces goes across and down as bytes.
Schedule inter_reduce_scatter_packed(const Call& call) {
  const int64_t bytes = call.reduction.bytes();
  const int64_t size = call.reduction.type->size();
  Scratch our_room;
  Scratch their_room;
  std::byte* const ours = leads(call) ? our_room.bytes(bytes) : nullptr;
  std::byte* const theirs = leads(call) ? their_room.bytes(bytes) : nullptr;
  const Schedule up = combine_packed(call, ours);
  co_await part(up);
  Step<2> step;
  if (leads(call)) {
    const Team other = their_side(call);
    step.recv(other, 0, bytes_at(theirs, bytes));
    step.send(other, 0, bytes_at(ours, bytes));
  }
  co_await step;
  const std::vector<MPI_Count> begins = begins_of(call);
  std::vector<MPI_Count> places;
  std::vector<MPI_Count> counts;
  for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
    places.push_back(begins[i] * size);
    counts.push_back((begins[i + 1] - begins[i]) * size);
  }
  Parts parts{.base = theirs, .type = &byte_type()};
  parts.counts = Counts(counts.data());
  parts.places = Counts(places.data());
  const Team team = our_side(call);
  const Block mine = {call.in.base, counts[static_cast<std::size_t>(team.rank)] / size,
                      call.reduction.type};
  const Schedule down = scatter_straight(team, parts, mine, 0);
  co_await part(down);
}

Schedule inter_reduce_scatter(const Call& call) {
  const Reduction& reduction = call.reduction;
  Scratch room;
  std::byte* all =
      leads(call) ? room.elements(reduction.count, *reduction.type, reduction.phase) : nullptr;
  const Schedule across = swap_combined(call, all);
  co_await part(across);
  const Team ours = our_side(call);
  Parts parts{.base = all, .count = call.in.count, .type = reduction.type};
  const std::vector<MPI_Count> begins = begins_of(call);
  if (!call.in.counts.null()) {
    parts.counts = call.in.counts;
    parts.places = Counts(begins.data());
  }
  const auto rank = static_cast<std::size_t>(ours.rank);
  const int64_t count = begins[rank + 1] - begins[rank];
  const Schedule down = scatter_straight(ours, parts, {call.in.base, count, reduction.type}, 0);
  co_await part(down);
}

}  // namespace

Schedule inter_schedule_of(const Call& call) {
  switch (call.kind) {
    case Kind::barrier:
      return inter_barrier(call);
    case Kind::bcast:
      return inter_bcast(call);
    case Kind::gather:
    case Kind::gatherv:
      return inter_gather(call);
    case Kind::scatter:
    case Kind::scatterv:
      return inter_scatter(call);
    case Kind::allgather:
    case Kind::allgatherv:
      return inter_allgather(call);
    case Kind::alltoall:
    case Kind::alltoallv:
    case Kind::alltoallw:
      return all_to_all(their_side(call), nullptr, call.out, call.in, -1);
    case Kind::reduce:
      return inter_reduce(call);
    case Kind::allreduce:
      return inter_allreduce(call);
    case Kind::reduce_scatter:
    case Kind::reduce_scatter_block:
      return call.reduction.bytes() != 0 && call.reduction.interlaces()
                 ? inter_reduce_scatter_packed(call)
                 : inter_reduce_scatter(call);
    default:
      fail(MPI_ERR_COMM, "this collective is for intra-communicators only");
  }
}

}  // namespace weft::mpi
