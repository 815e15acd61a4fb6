// Collectives for the house's own use: what making communicators needs.
#pragma once

#include <cstdint>

#include "mpi/collectives/kind.hpp"
#include "mpi/comm.hpp"
#include "mpi/datatype.hpp"
#include "mpi/op.hpp"
#include "mpi/schedule.hpp"

namespace weft::mpi {

struct Trouble;  // collectives/

// Over an intra-communicator, on its collective plane; `tag` from next_collective_tag, taken by the
// caller before the first co_await, so that concurrent collectives keep apart. Buffers must live
// until the schedule is over.
Schedule barrier(Comm& comm, int tag);
Schedule broadcast(Comm& comm, int tag, void* buffer, int64_t bytes, int root);
/// Everybody's `bytes` at `mine`, in rank order, at `all` (size() * bytes).
Schedule all_gather(Comm& comm, int tag, const void* mine, int64_t bytes, void* all);
/// Bitwise AND, or maximum, of words, in place.
Schedule all_and(Comm& comm, int tag, uint64_t* words, int64_t count);
Schedule all_max(Comm& comm, int tag, int64_t* values, int64_t count);

/// With mpi.check_collectives: all of `comm` tell each other what they call, with which root or
/// leader, if there is one; throws what differs. Its tags are taken now. Else nothing.
Schedule comparison(Comm& comm, Kind kind, int root = -1);
/// The same, blocking. Returns what messages met of it: callers go on with theirs, and fail at
/// their end, since others may have met nothing and wait for them.
[[nodiscard]] Trouble compare_calls(Comm& comm, Kind kind, int root = -1);

/// all_and and all_max among members of a group that has no communicator yet
/// (MPI_Comm_create_group, sessions): messages on the collective plane of `carrier`, with tag
/// `tag`, which the caller has chosen so that nobody else's meet them.
Schedule group_all_and(Comm& carrier, const Group& members, int tag, uint64_t* words,
                       int64_t count);
Schedule group_all_max(Comm& carrier, const Group& members, int tag, int64_t* values,
                       int64_t count);

}  // namespace weft::mpi
