// Checks of collectives' arguments, and what they become.
#pragma once

#include <cstdint>

#include "mpi/collectives/call.hpp"

namespace weft::mpi {

[[nodiscard]] inline std::byte* address(const void* buffer) noexcept {
  return static_cast<std::byte*>(const_cast<void*>(buffer));
}

/// This rank's part in a rooted collective.
struct Role {
  bool gives_all = false;  ///< the root
  bool takes_part = true;  ///< not MPI_PROC_NULL's
};
/// Checks and sets the root. Throws MPI_ERR_ROOT.
Role set_root(Call& call, int root);

/// Throws MPI_ERR_BUFFER for MPI_IN_PLACE, and for data at the null pointer.
void check_buffer(const void* buffer, int64_t count, const Datatype& type);

// Blocks of equal size, or one block. `out` becomes `in_place` for MPI_IN_PLACE, if the
// communicator allows it.
void set_in(Call& call, const void* buffer, int64_t count, MPI_Datatype type);
void set_out(Call& call, const void* buffer, int64_t count, MPI_Datatype type);
// `blocks` of them, with counts and displacements.
void set_in(Call& call, const void* buffer, Counts counts, Counts places, MPI_Datatype type,
            int blocks);
void set_out(Call& call, const void* buffer, Counts counts, Counts places, MPI_Datatype type,
             int blocks);
/// The same with types of their own; `out` may be in place.
void set_typed(Call& call, const Parts& out, const MPI_Datatype* out_types, int outs,
               const Parts& in, const MPI_Datatype* in_types, int ins);
/// Whether `buffer` is MPI_IN_PLACE; throws MPI_ERR_BUFFER where that is not allowed.
bool is_in_place(const Call& call, const void* buffer);
/// Throws MPI_ERR_BUFFER if both are the same memory, or what this rank gives is where its own part
/// comes to lie.
void refuse_alias(const Call& call);
/// Throws MPI_ERR_TRUNCATE if what this rank gives is larger than its own part of what it gets,
/// unless mpi.check_collectives finds it.
void refuse_larger(const Call& call);
/// As `refuse_alias`, for each of so many blocks, where data goes to and comes from everybody.
void refuse_aliases(const Call& call, int blocks);

/// `count` elements of each rank, combined. `gets`: the result comes to this rank.
void set_reduction(Call& call, const void* from, void* to, int64_t count, MPI_Datatype type,
                   MPI_Op op, bool gets);
/// Throws MPI_ERR_COMM for inter-communicators.
void need_intra(const Call& call);

}  // namespace weft::mpi
