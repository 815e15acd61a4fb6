// MPI_Comm_split and _split_type.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mpi/abi/calls.hpp"
#include "mpi/collectives.hpp"
#include "mpi/collectives/promise.hpp"
#include "mpi/comm.hpp"
#include "mpi/comms/hints.hpp"
#include "mpi/comms/new_comm.hpp"
#include "mpi/comms/session.hpp"
#include "mpi/process.hpp"
#include "weft/base/topology.hpp"
#include "weft/fabric/job.hpp"

namespace weft::mpi {

namespace {

/// What each process says: with whom it wants to be, and where among them.
struct Wish {
  int32_t color;
  int32_t key;
};

std::vector<Wish> gather_wishes(Comm& comm, const Wish& mine, Trouble& met) {
  std::vector<Wish> wishes(static_cast<std::size_t>(comm.size()));
  run_part(all_gather(comm, next_collective_tag(comm), &mine, sizeof mine, wishes.data()), met);
  return wishes;
}

/// Those of a group with this color: by key, then by rank.
Held<Group> with_color(const Group& group, const std::vector<Wish>& wishes, int color) {
  std::vector<int> ranks;
  for (int i = 0; i < group.size(); ++i) {
    if (wishes[static_cast<std::size_t>(i)].color == color) ranks.push_back(i);
  }
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
    return wishes[static_cast<std::size_t>(a)].key < wishes[static_cast<std::size_t>(b)].key;
  });
  std::vector<int32_t> members;
  members.reserve(ranks.size());
  for (const int rank : ranks) members.push_back(group.process(rank).value);
  return Group::of(std::move(members));
}

/// `strict`: only parts that are smaller than the whole are made.
MPI_Comm split_intra(Comm& parent, const Wish& wish, const Info* hints, bool strict, Trouble met) {
  const std::vector<Wish> wishes = gather_wishes(parent, wish, met);
  Held<Group> part;
  if (wish.color != MPI_UNDEFINED) part = with_color(*parent.local_group, wishes, wish.color);
  if (strict && part && part->size() == parent.size()) part = {};
  return make_agreed(council_of(parent),
                     {.group = std::move(part), .parent = &parent, .hints = hints}, met);
}

MPI_Comm split_inter(Comm& parent, const Wish& wish, const Info* hints, bool strict, Trouble met) {
  const std::vector<Wish> ours = gather_wishes(*parent.local_comm, wish, met);
  std::vector<Wish> theirs(static_cast<std::size_t>(parent.remote_size));
  tell_other_side(parent, bytes_of(ours), bytes_of(theirs), met);
  Held<Group> local;
  Held<Group> remote;
  if (wish.color != MPI_UNDEFINED) {
    local = with_color(*parent.local_group, ours, wish.color);
    remote = with_color(*parent.remote_group, theirs, wish.color);
    const bool all = local->size() == parent.size() && remote->size() == parent.remote_size;
    if (remote->size() == 0 || (strict && all)) local = {};
  }
  return make_inter(
      council_of(parent),
      {.local = std::move(local), .remote = std::move(remote), .parent = &parent, .hints = hints},
      met);
}

MPI_Comm split(Comm& parent, const Wish& wish, const Info* hints, bool strict, Trouble met) {
  return parent.inter ? split_inter(parent, wish, hints, strict, met)
                      : split_intra(parent, wish, hints, strict, met);
}

int node_color() { return runtime().job().node_of(runtime().rank()); }

/// The color by a kind of hardware that MPI_Get_hw_resource_info tells: who may run only inside one
/// resource of it is with those that may run only inside the same.
int hardware_color(std::string_view kind) {
  constexpr int kMostOfNode = 1 << 13;
  const std::vector<base::Core>& cores = base::Topology::machine().cores();
  const auto inside = [&](int base::Core::*place) {
    const bool one = std::all_of(cores.begin(), cores.end(), [&](const base::Core& core) {
      return core.*place == cores.front().*place;
    });
    return one ? node_color() * kMostOfNode + cores.front().*place : MPI_UNDEFINED;
  };
  if (kind == kSharedMemory || kind == "hwloc://Machine") return node_color();
  if (kind == "hwloc://NUMANode") return inside(&base::Core::numa_node);
  if (kind == "hwloc://PU") return inside(&base::Core::os_index);
  return MPI_UNDEFINED;
}

/// Of MPI_COMM_TYPE_HW_GUIDED and _RESOURCE_GUIDED: the color by what `info` names.
int named_color(const Info* info, bool sets_too) {
  const auto hardware = info == nullptr ? std::nullopt : info->get(kHardwareKey);
  const auto set = info == nullptr || !sets_too ? std::nullopt : info->get("mpi_pset_name");
  if (hardware && set) fail(MPI_ERR_ARG, "both a kind of hardware and a process set are named");
  if (hardware) return hardware_color(*hardware);
  if (!set) return MPI_UNDEFINED;
  try {
    return process_set(*set)->process(0).value;
  } catch (const Failure&) {
    return MPI_UNDEFINED;  // a set that this process does not know makes no communicator
  }
}

int color_of_type(int split_type, const Info* info) {
  switch (split_type) {
    case MPI_UNDEFINED:
      return MPI_UNDEFINED;
    case MPI_COMM_TYPE_SHARED:
    case MPI_COMM_TYPE_HW_UNGUIDED:
      return node_color();
    case MPI_COMM_TYPE_HW_GUIDED:
      return named_color(info, false);
    case MPI_COMM_TYPE_RESOURCE_GUIDED:
      return named_color(info, true);
    default:
      fail(MPI_ERR_ARG, "no way to split a communicator: " + std::to_string(split_type));
  }
}

}  // namespace

namespace calls {

void Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* newcomm) {
  Comm& parent = mpi::comm(comm);
  begin_output(newcomm);
  require(color >= 0 || color == MPI_UNDEFINED, MPI_ERR_ARG, "a negative color");
  const Trouble met = compare_calls(parent, Kind::comm_split);
  *newcomm = split(parent, {color, key}, nullptr, false, met);
}

void Comm_split_type(MPI_Comm comm, int split_type, int key, MPI_Info info, MPI_Comm* newcomm) {
  Comm& parent = mpi::comm(comm);
  Info* const hints = info_or_null(info);
  begin_output(newcomm);
  const int color = color_of_type(split_type, hints);
  const Trouble met = compare_calls(parent, Kind::comm_split_type);
  *newcomm = split(parent, {color, key}, hints, split_type == MPI_COMM_TYPE_HW_UNGUIDED, met);
  if (*newcomm == MPI_COMM_NULL) return;
  Comm& made = mpi::comm(*newcomm);
  try {
    if (split_type == MPI_COMM_TYPE_HW_UNGUIDED || split_type == MPI_COMM_TYPE_HW_GUIDED)
      note_hardware(made, split_type == MPI_COMM_TYPE_HW_GUIDED ? hints->get(kHardwareKey)->c_str()
                                                                : kSharedMemory);
    if (split_type == MPI_COMM_TYPE_HW_UNGUIDED && info != MPI_INFO_ENV)
      note_hardware(hints, kSharedMemory);
  } catch (const std::bad_alloc&) {
    // The communicator is there, for all: it is used without having been told what it is.
  }
}

}  // namespace calls
}  // namespace weft::mpi
