// From a collective call to its schedule, and the three forms: run, begun, or kept for later.
#include "mpi/collectives/call.hpp"

#include <algorithm>
#include <atomic>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "mpi/collectives/algorithms.hpp"
#include "mpi/collectives/neighbours.hpp"
#include "mpi/collectives/node_board.hpp"
#include "mpi/collectives/settings.hpp"
#include "mpi/comms/topology.hpp"
#include "mpi/info.hpp"
#include "mpi/process.hpp"
#include "mpi/request.hpp"
#include "weft/base/clock.hpp"
#include "weft/base/parker.hpp"

namespace weft::mpi {
namespace {

/// What an Allgather shows of all ranks' blocks, where it does: few bytes, on a communicator that
/// may have boards. The same on all ranks. Else 0.
int64_t bytes_to_show(const Call& call) {
  if (call.form != CallForm::blocking || choices().allgather != AllgatherBy::automatic) return 0;
  const int size = call.comm->size();
  if (size > static_cast<int>(Board::kBytes)) return 0;
  constexpr auto kMost = static_cast<int64_t>(Board::kBytes);
  int64_t bytes = call.in.counts.null() ? size * call.in[0].bytes() : 0;
  if (!call.in.counts.null()) {
    for (int rank = 0; rank < size && bytes <= kMost; ++rank) bytes += call.in[rank].bytes();
  }
  return bytes <= kMost && may_have_boards(*call.comm) ? bytes : 0;
}

/// What a Scatter's root shows, where all are on its node: few bytes. The same on all ranks. Else
/// 0.
int64_t bytes_to_scatter(const Call& call) {
  const Comm& comm = *call.comm;
  if (choices().gather != GatherBy::automatic || node_map(*call.comm).nodes.size() > 1) return 0;
  const int64_t block = (comm.rank == call.root ? call.out[comm.rank] : call.in.whole()).bytes();
  constexpr auto kMost = static_cast<int64_t>(Board::kBytes);
  return block <= kMost ? block * comm.size() : 0;
}

/// What few ranks of one node show each other in an Alltoall, or in a Reduce_scatter: all of what
/// they give. The same on all. Else 0.
int64_t bytes_of_few(const Call& call) {
  int64_t bytes = 0;
  if (call.kind == Kind::alltoall && choices().alltoall == AlltoallBy::automatic) {
    bytes = call.comm->size() * call.in.whole().bytes();
  } else if ((call.kind == Kind::reduce_scatter || call.kind == Kind::reduce_scatter_block) &&
             choices().reduce_scatter == ReduceScatterBy::automatic) {
    bytes = call.reduction.bytes();
  }
  const bool fits = bytes != 0 && bytes <= static_cast<int64_t>(Board::kBytes) &&
                    call.comm->size() <= static_cast<int>(Board::kExchangers) &&
                    node_map(*call.comm).nodes.size() == 1;
  return fits ? bytes : 0;
}

/// What two ranks show each other in an Alltoall, or in a Reduce_scatter: the longer of both parts,
/// where there are two. The same on both. Else 0.
int64_t bytes_of_two(const Call& call) {
  int64_t here = 0;
  int64_t there = 0;
  const int other = 1 - call.comm->rank;
  switch (call.kind) {
    case Kind::alltoall:
      if (choices().alltoall != AlltoallBy::automatic) return 0;
      [[fallthrough]];
    case Kind::alltoallv:
    case Kind::alltoallw:
      here = call.in[other].bytes();
      there = call.in_place ? here : call.out[other].bytes();
      break;
    case Kind::reduce_scatter:
    case Kind::reduce_scatter_block:
      if (choices().reduce_scatter != ReduceScatterBy::automatic || !call.reduction.op->commutative)
        return 0;
      here = call.in.count_of(0) * call.reduction.type->size();
      there = call.in.count_of(1) * call.reduction.type->size();
      break;
    default:
      break;
  }
  return here == 0 || there == 0 ? 0 : std::max(here, there);
}

/// The board of few ranks for an exchange in which each gives others what is theirs. That of two is
/// made whatever is exchanged, since in a program that is wrong the two may differ in that: then
/// messages tell. (Not where counts are each rank's own: one of them may see nothing to exchange.)
NodeBoard* board_to_exchange(const Call& call) {
  const bool of_two = call.comm->size() == 2;
  const int64_t bytes = of_two ? bytes_of_two(call) : bytes_of_few(call);
  if (bytes == 0) return nullptr;
  const bool begins = call.kind != Kind::alltoallv && call.kind != Kind::alltoallw;
  NodeBoard* const board = node_board(*call.comm, call.tag, 0, begins);
  if (board == nullptr || !board->exchanges()) return nullptr;
  if (bytes <= static_cast<int64_t>(Board::kBytes)) return board;
  board->decline(call.tag);
  return nullptr;
}

/// The board of calls that show what is short: for all ranks of a node, or for none. The root of a
/// broadcast goes on without those who call it with wrong arguments, and so does that of a scatter:
/// they are no calls to make one in.
NodeBoard* board_of(const Call& call) {
  if (call.form != CallForm::blocking) return nullptr;
  int64_t bytes = 0;
  const bool goes_on = call.kind == Kind::bcast || call.kind == Kind::scatter;
  if (call.kind == Kind::bcast && choices().bcast == BcastBy::automatic) {
    bytes = call.in.whole().bytes();
  } else if (call.kind == Kind::allreduce && choices().allreduce == AllreduceBy::automatic) {
    bytes = call.reduction.bytes();
  } else if (call.kind == Kind::allgather || call.kind == Kind::allgatherv) {
    bytes = bytes_to_show(call);
  } else if (call.kind == Kind::scatter) {
    bytes = bytes_to_scatter(call);
  } else if (call.kind != Kind::barrier) {
    return board_to_exchange(call);
  }
  // Where nothing is shown, nothing is done.
  if (call.kind != Kind::barrier && bytes == 0) return nullptr;
  if (call.kind == Kind::allreduce && bytes > static_cast<int64_t>(Board::kBytes) &&
      call.comm->board != nullptr) {
    call.comm->board->decline(call.tag);  // by messages one learns that the other gave less
    return nullptr;
  }
  NodeBoard* const board = node_board(*call.comm, call.tag, bytes, !goes_on);
  // A root that shows its data to one other need not wait for that, as in an exchange.
  return board != nullptr && goes_on && board->is_pair() ? nullptr : board;
}

Schedule intra_schedule_of(const Call& call) {
  Comm& comm = *call.comm;
  Team team = everybody(comm, call.tag);
  team.board = board_of(call);
  const Block mine = call.in_place ? Block{} : call.out.whole();
  const void* from = call.out.base;
  void* to = call.in.base;
  switch (call.kind) {
    case Kind::barrier:
      return barrier(team, node_levels(comm));
    case Kind::bcast:
      return broadcast(team, node_levels(comm), call.in.whole(), call.root);
    case Kind::gather:
      return gather(team, node_levels(comm), mine, call.in, call.root);
    case Kind::gatherv:
      return gather_unlike(team, node_levels(comm), mine, call.in, call.root);
    case Kind::scatter:
      return scatter(team, node_levels(comm), call.out, call.in_place ? Block{} : call.in.whole(),
                     call.root);
    case Kind::scatterv:
      return scatter_unlike(team, node_levels(comm), call.out,
                            call.in_place ? Block{} : call.in.whole(), call.root);
    case Kind::allgather:
    case Kind::allgatherv:
      if (!call.in_place) copy(mine, call.in[comm.rank]);
      // Of two ranks without a board each sends its own block.
      if (team.board != nullptr || (comm.size() > 2 && bytes_to_show(call) != 0)) {
        return all_gather_shown(team, node_levels(comm), call.in);
      }
      return all_gather(team, node_levels(comm), call.in);
    case Kind::alltoall:
    case Kind::alltoallv:
    case Kind::alltoallw: {
      const int64_t bytes = call.kind == Kind::alltoall ? call.in.whole().bytes() : -1;
      if (call.in_place) return all_to_all_in_place(team, node_levels(comm), call.in, bytes);
      return all_to_all(team, node_levels(comm), call.out, call.in, bytes);
    }
    case Kind::reduce:
      return reduce(team, node_levels(comm), call.reduction, from, to, call.root);
    case Kind::allreduce:
      return all_reduce(team, node_levels(comm), call.reduction, from, to);
    case Kind::reduce_scatter:
    case Kind::reduce_scatter_block:
      return reduce_scatter(team, node_levels(comm), call.reduction, from, to, call.in);
    case Kind::scan:
      return scan(team, node_levels(comm), call.reduction, from, to);
    case Kind::exscan:
      return exclusive_scan(team, node_levels(comm), call.reduction, from, to);
    default:
      return neighbour_exchange(call);
  }
}

Schedule begin(const Call& call) {
  return settings().check_collectives ? checked_schedule_of(call) : schedule_of(call);
}

template <class T>
Held<T> hold(const T* object) {
  return Held<T>(const_cast<T*>(object));
}

/// A nonblocking or persistent collective: its arguments, and holds of what they name.
class CollectiveWork final : public ScheduleWork {
 public:
  explicit CollectiveWork(Call&& call)
      : call_(std::move(call)),
        out_type_(hold(call_.out.type)),
        in_type_(hold(call_.in.type)),
        type_(hold(call_.reduction.type)),
        op_(hold(call_.reduction.op)) {
    types_.reserve(call_.types.size());
    for (const Datatype* type : call_.types) types_.push_back(hold(type));
    keep_handle();
    keep_arrays();
  }
  ~CollectiveWork() override {
    if (own_handle_ == MPI_DATATYPE_NULL) return;
    if (Datatype* type = datatypes().remove(own_handle_); type != nullptr) type->drop();
  }
  CollectiveWork(const CollectiveWork&) = delete;
  CollectiveWork& operator=(const CollectiveWork&) = delete;

  static void* operator new(std::size_t bytes) { return allocate_frame(bytes); }
  static void operator delete(void* at, std::size_t bytes) noexcept { release_frame(at, bytes); }

  void start(Request& request) override {
    why_.clear();
    launch(begin(call_), request, *call_.comm, why_);
  }

 private:
  /// A program's function is given the datatype's handle: the program's, or where that was freed
  /// before the end, another. (Who frees it in another thread while the function runs may find it
  /// gone there.)
  void keep_handle() {
    if (!op_ || op_->predefined || type_->predefined()) return;
    own_handle_ = datatypes().add(Held<Datatype>(type_).release());
    call_.reduction.spare = own_handle_;
  }

  /// Programs end the arrays of counts and displacements once the call has returned, which other
  /// libraries let them do: of persistent collectives, and mpi4py of nonblocking ones.
  void keep_arrays() {
    const Comm& comm = *call_.comm;
    const bool scatters = call_.kind == Kind::reduce_scatter;
    const int peers = scatters ? comm.size() : comm.remote_size;
    const Neighbours* near = call_.neighbours;
    keep_array(call_.out.counts, near != nullptr ? static_cast<int>(near->out.size()) : peers);
    keep_array(call_.out.places, near != nullptr ? static_cast<int>(near->out.size()) : peers);
    keep_array(call_.in.counts, near != nullptr ? static_cast<int>(near->in.size()) : peers);
    keep_array(call_.in.places, near != nullptr ? static_cast<int>(near->in.size()) : peers);
  }
  void keep_array(Counts& counts, int length) {
    if (counts.null()) return;
    std::vector<MPI_Count>& kept = arrays_.emplace_back();
    for (int i = 0; i < length; ++i) kept.push_back(counts[static_cast<std::size_t>(i)]);
    kept.push_back(0);  // has an address, also where there is nobody
    counts = Counts(kept.data());
  }

  Call call_;
  std::deque<std::vector<MPI_Count>> arrays_;
  Held<Datatype> out_type_;
  Held<Datatype> in_type_;
  Held<Datatype> type_;
  Held<Op> op_;
  std::vector<Held<Datatype>> types_;
  MPI_Datatype own_handle_ = MPI_DATATYPE_NULL;
};

/// A request with this work. Inactive.
Request& request_for(Call&& call) {
  Request& request = make_request();  // before the tags are taken: there may be too many
  request.comm = Held<Comm>(call.comm);
  call.take_tags();
  try {
    request.work = new CollectiveWork(std::move(call));
  } catch (...) {
    retire(request);
    throw;
  }
  return request;
}

/// The collectives begun so far; a call's tags follow from that (Call::take_tags).
uint64_t begin_collective(Comm& comm, uint64_t blocking = 0) noexcept {
  const uint64_t tags = settings().check_collectives ? 2 : 1;
  // relaxed: see next_collective_tag.
  return comm.collectives.fetch_add(blocking + tags, std::memory_order_relaxed);
}

/// A blocking call's place among those of its communicator. MPI forbids that threads of a process
/// make several at once. Programs do, with calls that are all alike: then it does not matter which
/// of them meet, and they go one after the other.
class OneAtATime {
 public:
  explicit OneAtATime(Comm& comm)
      : ended_(comm.blocking_ended), begun_(begin_collective(comm, uint64_t{1} << kBlockingShift)) {
    if (!is_its_turn()) [[unlikely]]
      await();
  }
  ~OneAtATime() {
    // release: the next one finds what this one has left behind.
    ended_.store(static_cast<uint16_t>(number() + 1), std::memory_order_release);
  }
  OneAtATime(const OneAtATime&) = delete;
  OneAtATime& operator=(const OneAtATime&) = delete;

  /// See begin_collective.
  [[nodiscard]] uint64_t begun() const noexcept { return begun_; }

 private:
  [[nodiscard]] uint16_t number() const noexcept {
    return static_cast<uint16_t>(begun_ >> kBlockingShift);
  }
  // acquire: pairs with the release at the end of the one before.
  [[nodiscard]] bool is_its_turn() const noexcept {
    return ended_.load(std::memory_order_acquire) == number();
  }
  void await() {
    constexpr uint32_t kTurns = 128;
    constexpr uint64_t kPauseNs = 1'000'000;
    for (uint32_t turn = 1; !is_its_turn(); ++turn) {
      progress();
      base::this_parker().yield();
      if (turn % kTurns == 0) (void)base::this_parker().park_until(base::now_ns() + kPauseNs);
    }
  }

  std::atomic<uint16_t>& ended_;
  uint64_t begun_;
};

}  // namespace

void Call::take_tags() { take_tags(begin_collective(*comm)); }

void Call::take_tags(uint64_t begun) {
  const bool checks = settings().check_collectives;
  tag = collective_tag(begun);
  if (checks) check_tag = collective_tag(begun + 1);
  if (!comm->inter) return;
  local_tag = next_collective_tag(*comm->local_comm);
  if (checks) local_check_tag = next_collective_tag(*comm->local_comm);
}

const char* name_of(Kind kind) noexcept {
  static constexpr const char* kNames[] = {"MPI_Barrier",
                                           "MPI_Bcast",
                                           "MPI_Gather",
                                           "MPI_Gatherv",
                                           "MPI_Scatter",
                                           "MPI_Scatterv",
                                           "MPI_Allgather",
                                           "MPI_Allgatherv",
                                           "MPI_Alltoall",
                                           "MPI_Alltoallv",
                                           "MPI_Alltoallw",
                                           "MPI_Reduce",
                                           "MPI_Allreduce",
                                           "MPI_Reduce_scatter",
                                           "MPI_Reduce_scatter_block",
                                           "MPI_Scan",
                                           "MPI_Exscan",
                                           "MPI_Neighbor_allgather",
                                           "MPI_Neighbor_allgatherv",
                                           "MPI_Neighbor_alltoall",
                                           "MPI_Neighbor_alltoallv",
                                           "MPI_Neighbor_alltoallw",
                                           "MPI_Comm_dup",
                                           "MPI_Comm_dup_with_info",
                                           "MPI_Comm_idup",
                                           "MPI_Comm_idup_with_info",
                                           "MPI_Comm_split",
                                           "MPI_Comm_split_type",
                                           "MPI_Comm_create",
                                           "MPI_Cart_create",
                                           "MPI_Cart_sub",
                                           "MPI_Graph_create",
                                           "MPI_Dist_graph_create",
                                           "MPI_Dist_graph_create_adjacent",
                                           "MPI_Intercomm_create",
                                           "MPI_Intercomm_merge"};
  return kNames[static_cast<std::size_t>(kind)];
}

Schedule schedule_of(const Call& call) {
  return call.comm->inter ? inter_schedule_of(call) : intra_schedule_of(call);
}

void run_now(Call call) {
  const OneAtATime mine(*call.comm);
  call.take_tags(mine.begun());
  run(begin(call));
}

void start(Call call, MPI_Request* request) {
  require(request != nullptr, MPI_ERR_ARG, "no place for the request: a null pointer");
  call.form = CallForm::nonblocking;
  Request& begun = request_for(std::move(call));
  try {
    begun.work->start(begun);
  } catch (...) {
    retire(begun);
    throw;
  }
  *request = handle_of(begun);
}

void make_persistent(Call call, MPI_Info info, MPI_Request* request) {
  require(request != nullptr, MPI_ERR_ARG, "no place for the request: a null pointer");
  (void)info_or_null(info);
  call.form = CallForm::persistent;
  Request& made = request_for(std::move(call));
  made.persistent = true;
  *request = handle_of(made);
}

}  // namespace weft::mpi
