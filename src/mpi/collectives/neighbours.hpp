// Neighbourhood collectives.
#pragma once

#include "mpi/collectives/call.hpp"

namespace weft::mpi {

/// Blocks to all that this rank points to, from all that point to it.
Schedule neighbour_exchange(const Call& call);

}  // namespace weft::mpi
