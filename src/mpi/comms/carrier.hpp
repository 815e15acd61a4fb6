// The communicator that nobody sees: for messages of those who have none yet.
#pragma once

#include "mpi/comm.hpp"

namespace weft::mpi {

/// All processes of the job; a rank in it is a rank of the job. Only its collective plane is used,
/// with tags from members_tag(). From open_comms to close_comms.
[[nodiscard]] Comm& carrier() noexcept;

}  // namespace weft::mpi
