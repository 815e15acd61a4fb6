// Groups as sets: what several calls about groups and communicators need.
#pragma once

#include <cstdint>
#include <vector>

#include "mpi/group.hpp"

namespace weft::mpi {

/// A handle for the program; MPI_GROUP_EMPTY for a group without members.
[[nodiscard]] MPI_Group handle_for(Held<Group> group);
/// The job's ranks of its members, in order.
[[nodiscard]] std::vector<int32_t> members_of(const Group& group);
[[nodiscard]] bool is_within(const Group& part, const Group& whole);
[[nodiscard]] bool are_disjoint(const Group& one, const Group& other);
/// MPI_IDENT, MPI_SIMILAR or MPI_UNEQUAL.
[[nodiscard]] int compare(const Group& one, const Group& other);

}  // namespace weft::mpi
