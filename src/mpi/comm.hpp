// Communicators.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "mpi/abi/mpi.h"
#include "mpi/attributes.hpp"
#include "mpi/errhandler.hpp"
#include "mpi/failure.hpp"
#include "mpi/group.hpp"
#include "mpi/handle.hpp"
#include "mpi/info.hpp"

namespace weft::mpi {

class Channel;    // messages/: matching of one plane of one context
class Topology;   // comms/
class NodeBoard;  // collectives/: shared memory of the members on this node; made when it pays
class NodeMap;    // collectives/: which members share a node; made on first use

/// The two planes of a context: messages of the program, and those of collectives.
enum class Plane : uint8_t { program, collective };

/// What a program promised by info hints (MPI 7.4.4). Relaxed: to change a promise while others
/// rely on it is the program's affair.
struct Hints {
  std::atomic<bool> no_any_tag{false};
  std::atomic<bool> no_any_source{false};
  std::atomic<bool> exact_length{false};
  std::atomic<bool> allow_overtaking{false};
  [[nodiscard]] bool no_wildcards() const noexcept {
    return no_any_tag.load(std::memory_order_relaxed) &&
           no_any_source.load(std::memory_order_relaxed);
  }
};

/// A communicator. Intra-communicators: `remote` is `local`.
///
/// Held by its handle and by each operation under way. Set up by one thread before others see it;
/// afterwards immutable but for what has a lock or is atomic.
class Comm final : public Counted {
 public:
  // Fast path's fields first.
  uint16_t context = 0;
  int rank = 0;         ///< of this process in `local`
  int remote_size = 0;  ///< of the group that messages go to
  bool inter = false;
  Group* remote = nullptr;    ///< `remote_group`, or `local_group`
  Channel* channels[2] = {};  ///< by Plane; opened by messages/ (open_channels)
  Held<Group> local_group;
  Held<Group> remote_group;  ///< inter-communicators only
  MPI_Comm handle = MPI_COMM_NULL;
  Hints hints;

  /// Collectives begun so far, of which the tag of the next one follows (2^48 are years of them);
  /// in the upper 16 bits those of them that block.
  std::atomic<uint64_t> collectives{0};
  std::atomic<uint16_t> blocking_ended{0};  ///< of those that block
  std::atomic<uint32_t> launched{0};        ///< nonblocking ones that have not ended
  /// A collective has met a dead member: from then on its messages tell that instead of data.
  std::atomic<bool> member_died{false};
  std::mutex lock;  ///< of what follows
  std::string name;
  Held<Errhandler> errhandler;    ///< never empty
  bool errhandler_given = false;  ///< by MPI_Comm_set_errhandler
  Held<Info> info;                ///< hints, as the program gave them; may be empty
  AttributeSet attributes;
  std::shared_ptr<Topology> topology;
  /// Inter-communicators: an intra-communicator of the local group, for their collectives; its
  /// context is agreed upon along with `context`.
  Held<Comm> local_comm;
  std::shared_ptr<NodeMap> nodes;
  std::shared_ptr<NodeBoard> board;        ///< of its blocking collectives, without the lock
  MPI_Session session = MPI_SESSION_NULL;  ///< that it was derived from

  [[nodiscard]] int size() const noexcept { return local_group->size(); }
  /// The job's rank of a peer; no checks.
  [[nodiscard]] Rank process(int peer) const noexcept { return remote->process(peer); }

 private:
  ~Comm() override;  // comms/: closes the channels, gives the context back
};

inline constinit HandleTable<Comm, MPI_Comm> comm_table;
inline HandleTable<Comm, MPI_Comm>& comms() noexcept { return comm_table; }

/// The communicator of a handle; throws MPI_ERR_COMM.
inline Comm& comm(MPI_Comm handle) {
  Comm* found = comms().find(handle);
  if (found == nullptr) [[unlikely]]
    fail(MPI_ERR_COMM, "not a communicator: null, freed, or never made");
  return *found;
}
/// The same for calls that need an intra-communicator.
Comm& intra_comm(MPI_Comm handle);

/// The tag of letters to who waits at a board (collectives/node_board.hpp): no collective's.
inline constexpr int kLetterTag = 0x7fffffff;

inline constexpr unsigned kBlockingShift = 48;
[[nodiscard]] constexpr int collective_tag(uint64_t collectives) noexcept {
  return static_cast<int>((collectives & ((uint64_t{1} << kBlockingShift) - 1)) % kLetterTag);
}
/// The tag of the next collective of this communicator: same order on all ranks, so the same tag.
[[nodiscard]] inline int next_collective_tag(Comm& comm) noexcept {
  // relaxed: MPI has programs order the collectives of a communicator themselves.
  return collective_tag(comm.collectives.fetch_add(1, std::memory_order_relaxed));
}

}  // namespace weft::mpi
