// Looks at arrays of requests: what the any, some and all calls share.
#pragma once

#include <cstdint>
#include <span>

#include "mpi/comms/output.hpp"
#include "mpi/failure.hpp"
#include "mpi/requests/pool.hpp"

namespace weft::mpi {

inline void check_array(int count, const MPI_Request* requests) {
  if (count > 0 && requests != nullptr) [[likely]]
    return;
  require(count >= 0, MPI_ERR_COUNT, "a negative number of requests");
  require(count == 0, MPI_ERR_ARG, "no array of requests: a null pointer");
}

/// What the some calls answer with.
inline void require_outputs(int count, const int* number, const int* indices) {
  require_output(number);
  if (count > 0) require_output(indices);
}

/// What a look found: nothing active at all; active ones, none of which has ended; an ended one.
enum class Look : uint8_t { none_active, pending, ended };

/// Concludes the first request that has ended. With none_active, the index is MPI_UNDEFINED and the
/// status empty.
Look conclude_one(std::span<MPI_Request> handles, int* index, MPI_Status* status);
/// Concludes all that have ended. With none_active, the number is MPI_UNDEFINED.
Look conclude_some(std::span<MPI_Request> handles, int* number, int* indices, MPI_Status* statuses);
/// Whether all active ones have ended.
bool all_ended(std::span<const MPI_Request> handles);

}  // namespace weft::mpi
