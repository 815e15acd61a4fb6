// A collective call: what the program gave, checked, and the three ways to do it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "mpi/collectives/blocks.hpp"
#include "mpi/collectives/kind.hpp"
#include "mpi/collectives/reduction.hpp"
#include "mpi/comm.hpp"
#include "mpi/schedule.hpp"

namespace weft::mpi {

struct Neighbours;  // comms/

/// How it is called. Calls of unlike forms do not match (MPI 6.12).
enum class CallForm : uint8_t { blocking, nonblocking, persistent };

/// The arguments of a collective, checked. Views of the program's arrays, which it leaves alone
/// until the operation is over.
struct Call {
  Call(Kind the_kind, Comm& the_comm) noexcept : kind(the_kind), comm(&the_comm) {}
  Call(Call&&) noexcept = default;
  Call(const Call&) = delete;  // `out` and `in` name parts of `types`
  Call& operator=(Call&&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() = default;

  /// As the call begins, all arguments being right: one that fails for them has not taken part, and
  /// the rank may call again, rightly, while the others wait for it.
  void take_tags();
  /// The same of a call that has been counted among the communicator's: as the next after `begun`.
  void take_tags(uint64_t begun);

  Kind kind;
  CallForm form = CallForm::blocking;
  bool in_place = false;
  int root = 0;       ///< or MPI_ROOT, MPI_PROC_NULL
  int tag = 0;        ///< on the communicator
  int local_tag = 0;  ///< inter-communicators: on their local one
  int check_tag = 0;  ///< with mpi.check_collectives
  int local_check_tag = 0;
  Comm* comm;
  Parts out;  ///< what this rank gives; reductions: the address alone
  Parts in;   ///< what it gets; broadcasts: both
  Reduction reduction;
  const Neighbours* neighbours = nullptr;
  std::vector<const Datatype*> types;  ///< of MPI_Alltoallw and its kin: of `out`, then of `in`
};

/// The steps of a call. It must outlive them.
[[nodiscard]] Schedule schedule_of(const Call& call);
/// Of calls on inter-communicators (inter.cpp).
[[nodiscard]] Schedule inter_schedule_of(const Call& call);
/// `schedule_of` after all ranks have compared what they call (check.cpp).
[[nodiscard]] Schedule checked_schedule_of(const Call& call);

/// The three forms.
void run_now(Call call);
void start(Call call, MPI_Request* request);
void make_persistent(Call call, MPI_Info info, MPI_Request* request);

}  // namespace weft::mpi
