// MPI_Status: the three public fields, and what MPI_internal holds.
#pragma once

#include <cstdint>
#include <cstring>

#include "mpi/abi/mpi.h"

namespace weft::mpi {

/// The end of a receive or send, as statuses tell it.
struct Outcome {
  int source = MPI_ANY_SOURCE;  ///< rank in the communicator
  int tag = MPI_ANY_TAG;
  int error = MPI_SUCCESS;  ///< error class
  bool cancelled = false;
  int64_t bytes = 0;
};

/// MPI_internal: [0,1] bytes, [2] cancelled. MPI_ERROR is left alone (MPI 3.2.5) unless
/// `with_error` (calls that return several statuses). `status` may be MPI_STATUS_IGNORE.
inline void fill(MPI_Status* status, const Outcome& outcome, bool with_error = false) noexcept {
  if (status == MPI_STATUS_IGNORE) return;
  status->MPI_SOURCE = outcome.source;
  status->MPI_TAG = outcome.tag;
  if (with_error) status->MPI_ERROR = outcome.error;
  std::memcpy(&status->MPI_internal[0], &outcome.bytes, sizeof outcome.bytes);
  status->MPI_internal[2] = outcome.cancelled ? 1 : 0;
}
[[nodiscard]] inline int64_t bytes_of(const MPI_Status& status) noexcept {
  int64_t bytes;
  std::memcpy(&bytes, &status.MPI_internal[0], sizeof bytes);
  return bytes;
}
inline void set_bytes(MPI_Status& status, int64_t bytes) noexcept {
  std::memcpy(&status.MPI_internal[0], &bytes, sizeof bytes);
}
/// What inactive and null requests answer (MPI 3.7.3).
inline constexpr Outcome kEmpty{};

}  // namespace weft::mpi
