// Making communicators: the steps that all ways of making one share.
#pragma once

#include <span>
#include <vector>

#include "mpi/collectives/posts.hpp"
#include "mpi/comm.hpp"
#include "mpi/comms/agreement.hpp"
#include "mpi/comms/context_ids.hpp"
#include "mpi/comms/output.hpp"

namespace weft::mpi {

class Failure;
class Info;

/// An intra-communicator without a context, which inherits from `parent` (may be nullptr) its error
/// handler. This process is a member.
[[nodiscard]] Held<Comm> draft(Held<Group> group, Comm* parent);
/// The same, an inter-communicator; its local communicator is drafted, too.
[[nodiscard]] Held<Comm> draft(Held<Group> local, Held<Group> remote, Comm* parent);
/// Gives a draft its context and opens its channels.
void open_comm(Comm& comm, Context context);
/// Its handle, which holds it. Callers set it in `comm.handle`, too.
MPI_Comm give_handle(Held<Comm> comm);

// Makers whose steps are several take part in all of them, whatever they `met` in those before:
// others may have met nothing, and wait. They fail at their end.

/// What the makers of intra-communicators do last, blocking: agrees on a context over `council`,
/// and makes the communicator of `group`, MPI_COMM_NULL where that is empty (for those who only
/// take part).
struct Wanted {
  Held<Group> group;  ///< empty pointer: none
  Comm* parent = nullptr;
  std::shared_ptr<Topology> topology{};
  Held<Errhandler> errhandler{};  ///< empty: the parent's
  const Info* hints = nullptr;
};
MPI_Comm make_agreed(const Council& council, Wanted wanted, Trouble met = {});

/// The same for an inter-communicator: two contexts, one of them for the local communicators of
/// both sides, which have no process in common.
struct WantedInter {
  Held<Group> local;  ///< empty pointer: none
  Held<Group> remote;
  Comm* parent = nullptr;
  Held<Errhandler> errhandler{};  ///< empty: the parent's
  const Info* hints = nullptr;
  const Failure* wrong = nullptr;  ///< how the call fails, whatever messages met; `met` says so
};
MPI_Comm make_inter(Council council, WantedInter wanted, Trouble met = {});

/// The first `count` processes of `comm`, where this one is of them; empty pointer elsewhere.
[[nodiscard]] Held<Group> first_members(const Comm& comm, int count);

/// One context; blocking. None if `met` says that a message failed, now or before.
[[nodiscard]] Context agree_now(const Council& council, Trouble& met);

/// The local groups of an inter-communicator tell each other; blocking, collective over both. All
/// of one side give the same bytes. `theirs` has the size that the other side gives.
void tell_other_side(Comm& inter, std::span<const std::byte> ours, std::span<std::byte> theirs,
                     Trouble& met);

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}
template <class T>
std::span<std::byte> bytes_of(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

}  // namespace weft::mpi
