// Messages that a program took out of matching (MPI_Mprobe), by handle.
#pragma once

#include "mpi/comm.hpp"
#include "mpi/handle.hpp"
#include "mpi/messages.hpp"

namespace weft::mpi {

/// From the probe to the receive; holds its communicator.
struct MatchedMessage {
  Extracted* message = nullptr;
  Held<Comm> comm;
};

HandleTable<MatchedMessage, MPI_Message>& matched_messages() noexcept;
/// Ends those that were never received; with mpi.report_leaks, says so.
void end_leaked_messages();

}  // namespace weft::mpi
