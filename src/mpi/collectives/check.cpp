// mpi.check_collectives: before each collective all ranks tell each other what they call.
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mpi/collectives.hpp"
#include "mpi/collectives/algorithms.hpp"
#include "mpi/collectives/call.hpp"
#include "mpi/collectives/neighbours.hpp"
#include "mpi/comms/agreement.hpp"
#include "mpi/comms/topology.hpp"
#include "mpi/process.hpp"

namespace weft::mpi {
namespace {

/// What a type's elements are, as far as it is told apart: bytes, characters and mixtures go with
/// all.
enum class Nature : int32_t { any, integer, floating, complex, logical, pair };

Nature nature_of(Element element) noexcept {
  if (element >= Element::i8 && element <= Element::c_unsigned_long) return Nature::integer;
  if (element >= Element::f16 && element <= Element::f128) return Nature::floating;
  if (element >= Element::c16 && element <= Element::c128) return Nature::complex;
  if (element >= Element::boolean && element <= Element::l128) return Nature::logical;
  return Nature::any;
}

/// Pairs of two alike, such as MPI_2INT, are two of those.
Nature nature_of(const Datatype& type) noexcept {
  if (type.element() != Element::pair) return nature_of(type.element());
  return type.value() == type.index() ? nature_of(type.value()) : Nature::pair;
}

const char* name_of(Nature nature) noexcept {
  static constexpr const char* kNames[] = {
      "",         " of integers", " of floating point", " of complex numbers", " of truth values",
      " of pairs"};
  return kNames[static_cast<std::size_t>(nature)];
}

/// What one rank gives to another, or gets from it. Travels as bytes.
struct Share {
  int64_t bytes = 0;
  Nature nature = Nature::any;
  int32_t unused = 0;
};

Share share_of(const Block& block) noexcept {
  if (block.count == 0 || block.type == nullptr) return {};
  return {.bytes = block.bytes(), .nature = nature_of(*block.type)};
}

std::string describe(const Share& share) {
  return std::to_string(share.bytes) + " bytes" + name_of(share.nature);
}

int difference(const Share& a, const Share& b) noexcept {
  if (a.bytes != b.bytes) return MPI_ERR_COUNT;
  const bool unlike = a.nature != b.nature && a.nature != Nature::any && b.nature != Nature::any;
  return unlike ? MPI_ERR_TYPE : MPI_SUCCESS;
}

constexpr int64_t kUnlike = -1;

/// What must be the same on all ranks, as far as each knows it; and what a rank alone gives and
/// gets. Travels as bytes.
struct Signature {
  Kind kind = Kind::barrier;
  CallForm form = CallForm::blocking;
  int32_t root = -1;  ///< -1: it has none
  /// Predefined operations: their number; of the program: -1, and -2 those that do not commute.
  int32_t op = 0;
  int32_t has_op = 0;
  Share all{.bytes = kUnlike};    ///< kUnlike: they may differ
  uint64_t counts = 0;            ///< MPI_Reduce_scatter's, together
  Share other{.bytes = kUnlike};  ///< matches `all` of everybody; kUnlike: there is no such buffer
  Share gives;                    ///< where counts may differ
  Share gets;
};

bool is_rooted(Kind kind) noexcept {
  switch (kind) {
    case Kind::bcast:
    case Kind::gather:
    case Kind::gatherv:
    case Kind::scatter:
    case Kind::scatterv:
    case Kind::reduce:
      return true;
    default:
      return false;
  }
}

Share same_for_all(const Call& call) {
  switch (call.kind) {
    case Kind::bcast:
    case Kind::allgather:
    case Kind::alltoall:
      return share_of(call.in.whole());
    case Kind::gather:
      return share_of(call.in_place ? call.in.whole() : call.out.whole());
    case Kind::scatter:
      return share_of(call.root == call.comm->rank ? call.out.whole() : call.in.whole());
    case Kind::reduce:
    case Kind::allreduce:
    case Kind::reduce_scatter:
    case Kind::reduce_scatter_block:
    case Kind::scan:
    case Kind::exscan:
      return share_of(call.reduction.whole(nullptr));
    default:
      return {.bytes = kUnlike};
  }
}

/// Of calls with one count for all: the rank's other buffer, which is to match everybody's first.
Share other_side(const Call& call) {
  const bool at_root = call.root == call.comm->rank;
  switch (call.kind) {
    case Kind::allgather:
    case Kind::alltoall:
      return share_of(call.in_place ? call.in.whole() : call.out.whole());
    case Kind::gather:
      return at_root ? share_of(call.in.whole()) : Share{.bytes = kUnlike};
    case Kind::scatter:
      return at_root && !call.in_place ? share_of(call.in.whole()) : Share{.bytes = kUnlike};
    default:
      return {.bytes = kUnlike};
  }
}

uint64_t together(const Counts& counts, int ranks) noexcept {
  uint64_t hash = 0xcbf29ce484222325U;
  for (int i = 0; i < ranks; ++i) {
    hash = (hash ^ static_cast<uint64_t>(counts[static_cast<std::size_t>(i)])) * 0x100000001b3U;
  }
  return hash;
}

Signature signature_of(const Call& call) {
  Signature mine{.kind = call.kind, .form = call.form};
  // Roots and sizes of the two sides of an inter-communicator differ, and some ranks' arguments do
  // not count; but what is reduced for all is one thing on both.
  const bool inter = call.comm->inter;
  if (inter && is_rooted(call.kind)) return mine;
  if (const Op* const op = call.reduction.op; op != nullptr) {
    mine.has_op = 1;
    mine.op = op->predefined ? op->number : op->commutative ? -1 : -2;
  }
  if (inter) {
    if (call.kind == Kind::allreduce) mine.all = same_for_all(call);
    return mine;
  }
  if (is_rooted(call.kind)) mine.root = call.root;
  mine.all = same_for_all(call);
  mine.other = other_side(call);
  if (call.kind == Kind::reduce_scatter) mine.counts = together(call.in.counts, call.comm->size());
  if (call.kind == Kind::gatherv) mine.gives = share_of(call.out.whole());
  if (call.kind == Kind::scatterv) mine.gets = share_of(call.in.whole());
  if (call.kind == Kind::allgatherv) {
    mine.gives = share_of(call.in_place ? call.in[call.comm->rank] : call.out.whole());
  }
  return mine;
}

std::string name_of_op(int32_t number) {
  static const std::array<std::pair<MPI_Op, const char*>, 14> kNames{{{MPI_SUM, "MPI_SUM"},
                                                                      {MPI_MIN, "MPI_MIN"},
                                                                      {MPI_MAX, "MPI_MAX"},
                                                                      {MPI_PROD, "MPI_PROD"},
                                                                      {MPI_BAND, "MPI_BAND"},
                                                                      {MPI_BOR, "MPI_BOR"},
                                                                      {MPI_BXOR, "MPI_BXOR"},
                                                                      {MPI_LAND, "MPI_LAND"},
                                                                      {MPI_LOR, "MPI_LOR"},
                                                                      {MPI_LXOR, "MPI_LXOR"},
                                                                      {MPI_MINLOC, "MPI_MINLOC"},
                                                                      {MPI_MAXLOC, "MPI_MAXLOC"},
                                                                      {MPI_REPLACE, "MPI_REPLACE"},
                                                                      {MPI_NO_OP, "MPI_NO_OP"}}};
  for (const auto& [handle, name] : kNames) {
    if (op(handle).number == number) return name;
  }
  return number == -1 ? "its own operation" : "its own operation, which does not commute";
}

std::string describe(const char* whose, int rank, const Signature& call) {
  static constexpr const char* kForms[] = {"", ", nonblocking", ", persistent"};
  std::string text = whose + std::to_string(rank) + " called " + name_of(call.kind);
  std::string details;
  if (call.root >= 0) details += ", root " + std::to_string(call.root);
  if (call.all.bytes != kUnlike) details += ", " + describe(call.all);
  if (call.other.bytes != kUnlike && difference(call.all, call.other) != MPI_SUCCESS)
    details += " in one buffer and " + describe(call.other) + " in the other";
  if (call.has_op != 0) details += ", " + name_of_op(call.op);
  details += kForms[static_cast<std::size_t>(call.form)];
  if (!details.empty()) text += " (" + details.substr(2) + ")";
  return text;
}

/// The error class of a difference; MPI_SUCCESS: there is none.
int difference(const Signature& a, const Signature& b) noexcept {
  if (a.kind != b.kind || a.form != b.form) return MPI_ERR_OTHER;
  if (a.root != b.root) return MPI_ERR_ROOT;
  if (a.has_op != b.has_op || a.op != b.op) return MPI_ERR_OP;
  if (const int error = difference(a.all, b.all); error != MPI_SUCCESS) return error;
  for (const auto& [one, another] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    if (one->other.bytes == kUnlike) continue;
    if (const int error = difference(one->other, another->all); error != MPI_SUCCESS) return error;
  }
  return a.counts != b.counts ? MPI_ERR_COUNT : MPI_SUCCESS;
}

/// What one group of ranks called: its first rank's, and the first that differs. Travels as bytes.
struct Side {
  Signature first;
  Signature odd;
  int32_t odd_rank = -1;  ///< -1: none
};

Side side_of(const std::vector<Signature>& all) noexcept {
  Side side{.first = all[0], .odd = {}};
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (difference(all[0], all[rank]) == MPI_SUCCESS) continue;
    side.odd = all[rank];
    side.odd_rank = static_cast<int32_t>(rank);
    break;
  }
  return side;
}

void compare(const Signature& first, const char* whose_first, const Signature& other,
             const char* whose, int rank) {
  const int error = difference(first, other);
  if (error == MPI_SUCCESS) return;
  fail(error, "collectives that do not match: " + describe(whose_first, 0, first) + ", but " +
                  describe(whose, rank, other) +
                  (first.counts != other.counts ? ", with other counts of parts" : ""));
}

void compare_inside(const Side& side, const char* whose) {
  if (side.odd_rank >= 0) compare(side.first, whose, side.odd, whose, side.odd_rank);
}

constexpr const char* kOurs = "rank ";
constexpr const char* kTheirs = "the other side's rank ";

// --- Counts that may differ: what one rank gives another must be what that one expects -----------

/// The first that is not. Travels as bytes.
struct Mismatch {
  int32_t from = -1;  ///< -1: none
  int32_t to = -1;
  Share gives;
  Share gets;
};

void note(Mismatch& found, int from, int to, const Share& gives, const Share& gets) noexcept {
  if (found.from < 0 && difference(gives, gets) != MPI_SUCCESS) found = {from, to, gives, gets};
}

Parts parts_of(std::vector<Share>& shares) {
  return {.base = reinterpret_cast<std::byte*>(shares.data()),
          .count = sizeof(Share),
          .type = &byte_type()};
}

/// What each rank gives this one.
Schedule compare_all_to_all(const Call& call, Mismatch& found) {
  Comm& comm = *call.comm;
  std::vector<Share> gives(static_cast<std::size_t>(comm.size()));
  std::vector<Share> gets(gives.size());
  for (int i = 0; i < comm.size(); ++i) {
    gives[static_cast<std::size_t>(i)] = share_of(call.in_place ? call.in[i] : call.out[i]);
  }
  const Schedule swap = all_to_all(everybody(comm, call.check_tag), node_levels(comm),
                                   parts_of(gives), parts_of(gets), sizeof(Share));
  co_await part(swap);
  for (int i = 0; i < comm.size(); ++i) {
    note(found, i, comm.rank, gets[static_cast<std::size_t>(i)], share_of(call.in[i]));
  }
}

/// The same of neighbours.
Schedule compare_neighbours(const Call& call, Mismatch& found) {
  const Neighbours& who = *call.neighbours;
  const bool one_for_all =
      call.kind == Kind::neighbor_allgather || call.kind == Kind::neighbor_allgatherv;
  std::vector<Share> gives(who.out.size());
  std::vector<Share> gets(who.in.size());
  for (std::size_t i = 0; i < gives.size(); ++i) {
    gives[i] = share_of(one_for_all ? call.out.whole() : call.out[static_cast<int>(i)]);
  }
  Call swap(Kind::neighbor_alltoall, *call.comm);
  swap.neighbours = call.neighbours;
  swap.tag = call.check_tag;
  swap.out = parts_of(gives);
  swap.in = parts_of(gets);
  const Schedule exchange = neighbour_exchange(swap);
  co_await part(exchange);
  for (std::size_t i = 0; i < gets.size(); ++i) {
    if (who.in[i] == MPI_PROC_NULL) continue;
    note(found, who.in[i], call.comm->rank, gets[i], share_of(call.in[static_cast<int>(i)]));
  }
}

/// What is known from the signatures.
void compare_parts(const Call& call, const std::vector<Signature>& all, Mismatch& found) {
  const int rank = call.comm->rank;
  for (int i = 0; i < call.comm->size(); ++i) {
    const Signature& other = all[static_cast<std::size_t>(i)];
    if (call.kind == Kind::allgatherv || !(call.in_place && i == rank)) {
      if (call.kind == Kind::scatterv) {
        note(found, rank, i, share_of(call.out[i]), other.gets);
      } else {
        note(found, i, rank, other.gives, share_of(call.in[i]));
      }
    }
  }
}

/// All learn what anybody found.
Schedule compare_shares(const Call& call, const std::vector<Signature>& all) {
  Comm& comm = *call.comm;
  Mismatch mine;
  switch (call.kind) {
    case Kind::gatherv:
    case Kind::scatterv:
      if (comm.rank == call.root) compare_parts(call, all, mine);
      break;
    case Kind::allgatherv:
      compare_parts(call, all, mine);
      break;
    case Kind::alltoallv:
    case Kind::alltoallw: {
      const Schedule compares = compare_all_to_all(call, mine);
      co_await part(compares);
      break;
    }
    case Kind::neighbor_allgather:
    case Kind::neighbor_allgatherv:
    case Kind::neighbor_alltoall:
    case Kind::neighbor_alltoallv:
    case Kind::neighbor_alltoallw: {
      const Schedule compares = compare_neighbours(call, mine);
      co_await part(compares);
      break;
    }
    default:
      co_return;
  }
  std::vector<Mismatch> found(static_cast<std::size_t>(comm.size()));
  const Schedule tell = all_gather(comm, call.check_tag, &mine, sizeof mine, found.data());
  co_await part(tell);
  if (comm.member_died.load(std::memory_order_relaxed)) co_return;  // as in compare_all
  for (const Mismatch& each : found) {
    if (each.from < 0) continue;
    fail(difference(each.gives, each.gets),
         std::string(name_of(call.kind)) + " with counts that do not match: rank " +
             std::to_string(each.from) + " gives " + describe(each.gives) + " to rank " +
             std::to_string(each.to) + ", which expects " + describe(each.gets));
  }
}

// --- All of it -----------------------------------------------------------------------------------

/// The two sides, of an inter-communicator.
Council sides_of(const Call& call) noexcept {
  Council council;
  council.inside = call.comm->local_comm.get();
  council.tag = call.local_check_tag;
  council.bridged = true;
  council.bridge = call.comm;
  council.bridge_tag = call.check_tag;
  return council;
}

Schedule compare_all(const Call& call, Signature mine) {
  Comm& comm = call.comm->inter ? *call.comm->local_comm : *call.comm;
  std::vector<Signature> all(static_cast<std::size_t>(comm.size()));
  const int tag = call.comm->inter ? call.local_check_tag : call.check_tag;
  const Schedule tell = all_gather(comm, tag, &mine, sizeof mine, all.data());
  bool well = co_await part(tell);
  const Side ours = side_of(all);
  Side theirs;
  if (call.comm->inter) {
    const Schedule across = tell_across(sides_of(call), std::as_bytes(std::span(&ours, 1)),
                                        std::as_writable_bytes(std::span(&theirs, 1)));
    well = co_await part(across);
  }
  // After a death, met here or before, there is nothing to go by, but the messages go their way:
  // others may not have met it yet. relaxed: as in Posts.
  if (well && !comm.member_died.load(std::memory_order_relaxed) &&
      !call.comm->member_died.load(std::memory_order_relaxed)) {
    compare_inside(ours, kOurs);
    if (call.comm->inter) {
      compare_inside(theirs, kTheirs);
      compare(ours.first, kOurs, theirs.first, kTheirs, 0);
    }
  }
  if (!call.comm->inter) {
    const Schedule shares = compare_shares(call, all);
    co_await part(shares);
  }
}

/// Of a call that only makes a communicator. It lives in the frame.
Schedule compare_makers(Call call, int root) {
  Signature mine = signature_of(call);
  mine.root = root;
  const Schedule compares = compare_all(call, mine);
  co_await part(compares);
}

}  // namespace

Schedule checked_schedule_of(const Call& call) {
  const Schedule compares = compare_all(call, signature_of(call));
  co_await part(compares);
  const Schedule steps = schedule_of(call);
  co_await part(steps);
}

Schedule comparison(Comm& comm, Kind kind, int root) {
  if (!settings().check_collectives) return Schedule(nullptr);
  Call call(kind, comm);
  call.take_tags();
  return compare_makers(std::move(call), root);
}

Trouble compare_calls(Comm& comm, Kind kind, int root) {
  Trouble met;
  if (settings().check_collectives) run_part(comparison(comm, kind, root), met);
  return met;
}

}  // namespace weft::mpi
