// Groups: ordered sets of processes.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "mpi/abi/mpi.h"
#include "mpi/failure.hpp"
#include "mpi/handle.hpp"
#include "weft/base/types.hpp"

namespace weft::mpi {

/// Immutable. Member i is a rank of the job. Groups that are a run of the job's ranks (the usual
/// ones) keep no list.
class Group final : public Counted {
 public:
  /// first, first + 1, … first + size - 1.
  static Held<Group> run(int first, int size);
  static Held<Group> of(std::vector<int32_t> members);
  /// Made out of others: of the first's session that has one.
  static Held<Group> of(std::vector<int32_t> members, const Group& one, const Group& other) {
    Held<Group> made = of(std::move(members));
    made->session = one.session != MPI_SESSION_NULL ? one.session : other.session;
    return made;
  }

  MPI_Session session = MPI_SESSION_NULL;  ///< whose process set it comes from; set by who makes it

  [[nodiscard]] int size() const noexcept { return size_; }
  /// The job's rank of member `rank`, 0 <= rank < size().
  [[nodiscard]] Rank process(int rank) const noexcept {
    return Rank{first_ >= 0 ? first_ + rank : members_[static_cast<std::size_t>(rank)]};
  }
  /// The member that a rank of the job is; MPI_UNDEFINED: none.
  [[nodiscard]] int rank_of(Rank process) const noexcept {
    if (first_ >= 0) {
      const int rank = process.value - first_;
      return rank >= 0 && rank < size_ ? rank : MPI_UNDEFINED;
    }
    return look_up(process);
  }

 private:
  [[nodiscard]] int look_up(Rank process) const noexcept;
  int32_t first_ = 0;  ///< < 0: there is a list
  int32_t size_ = 0;
  std::vector<int32_t> members_;
  std::unordered_map<int32_t, int32_t> ranks_;
};

HandleTable<Group, MPI_Group>& groups() noexcept;
/// The object of a handle; throws MPI_ERR_GROUP.
Group& group(MPI_Group handle);

}  // namespace weft::mpi
