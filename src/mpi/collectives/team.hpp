// Who takes part in an algorithm: all of a communicator, those of a node, the leaders of nodes …
#pragma once

#include <atomic>

#include "mpi/comm.hpp"

namespace weft::mpi {

/// An ordered set of ranks of `comm` that exchange messages with one tag. Messages of a pair that
/// belong to one collective are told apart by order alone.
///
/// `members` must outlive what uses the team. In teams of an inter-communicator `rank` is the local
/// one, and all others are remote.
struct Team {
  Comm* comm = nullptr;
  int tag = 0;
  int rank = 0;
  int size = 0;
  const int* members = nullptr;  ///< their ranks in `comm`; nullptr: 0, 1, 2 …
  /// Teams without a communicator of their own: in place of the communicator's `member_died`.
  std::atomic<bool>* own_died = nullptr;
  /// All of an intra-communicator, in calls that block: this node's board, if there is one.
  NodeBoard* board = nullptr;

  /// Whether a member is known to have died: messages say so instead of what they should.
  [[nodiscard]] std::atomic<bool>& died() const noexcept {
    return own_died != nullptr ? *own_died : comm->member_died;
  }
  [[nodiscard]] int at(int member) const noexcept {
    return members != nullptr ? members[member] : member;
  }
};

/// All of an intra-communicator.
[[nodiscard]] inline Team everybody(Comm& comm, int tag) noexcept {
  return {.comm = &comm, .tag = tag, .rank = comm.rank, .size = comm.size()};
}
/// The other side of an inter-communicator.
[[nodiscard]] inline Team other_side(Comm& comm, int tag) noexcept {
  return {.comm = &comm, .tag = tag, .rank = comm.rank, .size = comm.remote_size};
}

}  // namespace weft::mpi
